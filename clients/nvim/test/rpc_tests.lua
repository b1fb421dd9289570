local rpc = require('edn-bridge.rpc')

local HELLO = '{:turns [{:steps [{:delta "Hello "} {:delta "from the bridge."}]}]}'

return function(test, support)
  --- Connects to the bridge of a new project; returns the connection and what came.
  local function connect(options)
    local got = { events = {}, batches = 0, gaps = {} }
    local connection = rpc.start(vim.tbl_extend('force', {
      on_ready = function(_, err)
        got.ready = err or true
      end,
      on_event = function(event)
        table.insert(got.events, event)
      end,
      on_batch = function()
        got.batches = got.batches + 1
      end,
      on_gap = function(missed)
        table.insert(got.gaps, missed)
      end,
      on_close = function(reason)
        got.closed = reason
      end,
    }, options))
    support.after(function()
      connection:close()
    end)
    return connection, got
  end

  local function ready(script, wrapper)
    local project = support.project(script)
    project.cmd = vim.list_extend(wrapper or {}, project.cmd)
    local connection, got = connect(project)
    support.wait('the handshake', function()
      return got.ready
    end)
    return connection, got
  end

  --- Makes a request and waits for its answer.
  local function ask(connection, op, params)
    local answer
    connection:request(op, params, function(err, data)
      answer = { err = err, data = data }
    end)
    return support.wait(op, function()
      return answer
    end)
  end

  local function event(got, topic)
    return support.wait(topic, function()
      for _, found in ipairs(got.events) do
        if found.topic == topic then
          return found
        end
      end
    end)
  end

  test('request_gets_its_own_answer', function()
    local connection = ready(HELLO)
    local answers = {}
    connection:request('ping', {}, function(_, data)
      answers.ping = data
    end)
    connection:request('no_such_op', {}, function(err)
      answers.unknown = err
    end)
    support.wait('two answers', function()
      return answers.ping and answers.unknown
    end)
    assert(answers.ping.pong)
    support.same(answers.unknown.code, 'request/op-not-supported')
    support.same(answers.unknown.retryable, false)
    assert(vim.list_contains(answers.unknown.data['supported-ops'], 'prompt'))
  end)

  test('prompt_tells_its_events_in_order', function()
    local connection, got = ready(HELLO)
    ask(connection, 'subscribe', { topics = { 'assistant/delta', 'turn/ended' } })
    ask(connection, 'prompt', { message = 'Hi. "é"\n%' })
    support.same(event(got, 'turn/ended').data.outcome, 'completed')
    local text = {}
    for place, found in ipairs(got.events) do
      support.same(found.seq, place)
      table.insert(text, found.data.text)
    end
    support.same(table.concat(text), 'Hello from the bridge.')
  end)

  test('param_without_form_is_an_error_of_the_client', function()
    support.same(ask(ready(HELLO), 'ping', { ['a b'] = 1 }).err.code, 'client/invalid')
  end)

  test('lost_events_are_told', function()
    local connection, got = ready(HELLO, { 'sh', '-c', '"$@" | sed -u "/ :seq [23] /d"', 'sh' })
    ask(connection, 'subscribe', {})
    ask(connection, 'prompt', { message = 'Hi.' })
    event(got, 'turn/ended')
    support.same(got.gaps, { 2 })
  end)

  test('killed_bridge_ends_open_requests', function()
    local connection, got = ready('{:turns [{:steps [{:sleep-ms 3600000}]}]}')
    ask(connection, 'prompt', { message = 'Hi.' })
    local answer
    connection:request('compact', {}, function(err)
      answer = err
    end)
    connection:kill()
    support.wait('the end', function()
      return got.closed
    end)
    assert(got.closed:find('signal 9'), got.closed)
    assert(answer)
    support.same(ask(connection, 'ping').err.code, 'client/closed')
  end)

  test('program_that_ends_tells_why', function()
    local _, got = connect({ cmd = { 'sh', '-c', 'echo out of order >&2; exit 3' } })
    support.wait('the end', function()
      return got.closed
    end)
    assert(got.closed:find('exit status 3') and got.closed:find('out of order'), got.closed)
    support.same(got.ready.code, 'client/closed')
  end)

  test('missing_program_is_an_error_of_the_client', function()
    local _, got = connect({ cmd = { '/no/such/program' } })
    support.wait('the refusal', function()
      return got.ready
    end)
    assert(got.ready.message:find('/no/such/program'))
  end)

  test('handler_that_fails_stops_nothing', function()
    local told
    local notify = vim.notify
    vim.notify = function(text)
      told = text
    end
    support.after(function()
      vim.notify = notify
    end)
    local project = support.project(HELLO)
    local ended
    project.on_event = function(event)
      ended = ended or event.topic == 'turn/ended'
      error('no idea')
    end
    local connection, got = connect(project)
    support.wait('the handshake', function()
      return got.ready
    end)
    ask(connection, 'subscribe', {})
    ask(connection, 'prompt', { message = 'Hi.' })
    support.wait('the end', function()
      return ended
    end)
    assert(told:find('no idea'), told)
  end)

  test('line_that_is_no_frame_ends_the_connection', function()
    local _, got = connect({ cmd = { 'sh', '-c', 'echo "{:a"; cat' } })
    support.wait('the end', function()
      return got.closed
    end)
    assert(got.closed:find('no frame'), got.closed)
  end)

  test('request_without_answer_times_out', function()
    local timeout = rpc.TIMEOUT
    rpc.TIMEOUT = 1
    support.after(function()
      rpc.TIMEOUT = timeout
    end)
    local _, got = connect({ cmd = { 'cat' } })
    support.wait('the time', function()
      return got.ready
    end)
    support.same(got.ready.code, 'client/timeout')
  end)

  --- A program that is no bridge: it prints frames as fast as it can, faster than any model.
  local function flood(count)
    local path = vim.fn.tempname()
    local lines = {}
    for seq = 1, count do
      lines[seq] = ('{:kind :event :event "x" :seq %d :ts "" :data {:text "%s"}}'):format(seq, ('x'):rep(1000))
    end
    support.write(path, table.concat(lines, '\n') .. '\n')
    return { 'sh', '-c', 'cat ' .. path .. '; cat >/dev/null' }
  end

  test('flood_leaves_the_editor_its_turns', function()
    local count, between, timers = 5 * rpc.BATCH_FRAMES, {}, 0
    local connection, got
    connection, got = connect({
      cmd = flood(count),
      on_batch = function()
        table.insert(between, { events = #got.events, timers = timers })
        vim.defer_fn(function()
          timers = timers + 1
        end, 0)
      end,
    })
    support.wait('all frames', function()
      return #got.events == count
    end)
    local before = { events = 0, timers = 0 }
    for _, batch in ipairs(between) do
      assert(batch.events - before.events <= rpc.BATCH_FRAMES, 'too many frames at once')
      before = batch
    end
    -- Other timers ran while there was more to handle.
    assert(between[#between].timers > 0, vim.inspect(between))
    support.same(connection.closed, nil)
  end)

  test('full_queue_stops_the_reading_for_a_while', function()
    local most = rpc.MAX_QUEUED
    rpc.MAX_QUEUED = 1
    support.after(function()
      rpc.MAX_QUEUED = most
    end)
    local connection, got
    local highest = 0
    connection, got = connect({
      cmd = flood(2000),
      on_batch = function()
        highest = math.max(highest, connection.queued)
      end,
    })
    support.wait('all frames', function()
      return #got.events == 2000
    end)
    assert(highest < 512 * 1024, 'queued: ' .. highest)
  end)

  test('line_beyond_the_bound_ends_the_connection', function()
    local most = rpc.MAX_LINE
    rpc.MAX_LINE = 1000
    support.after(function()
      rpc.MAX_LINE = most
    end)
    local _, got = connect({ cmd = { 'sh', '-c', 'head -c 5000 /dev/zero; cat' } })
    support.wait('the end', function()
      return got.closed
    end)
    assert(got.closed:find('more than 1000 bytes'), got.closed)
  end)

  test('nothing_in_the_sources_waits', function()
    for _, file in ipairs(vim.fn.glob(support.plugin .. '/lua/**/*.lua', true, true)) do
      local text = support.read(file)
      for _, call in ipairs({
        'vim%.wait', 'vim%.fn%.system', ':wait%(', 'io%.popen', 'os%.execute', 'rpcrequest', 'vim%.fn%.input%(',
        'getchar', 'sleep', 'confirm%(', 'ch_read', 'jobwait',
      }) do
        assert(not text:find(call), file .. ': ' .. call)
      end
    end
  end)
end
