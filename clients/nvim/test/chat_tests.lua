local HELLO = '{:turns [{:steps [{:delta "Hello "} {:delta "from the bridge."}]}]}'
local WRITES = [[{:turns [{:steps [{:delta "I write."}
  {:tool-call {:id "c" :name "write" :arguments {:path "a.txt" :content "one\ntwo\n"}}}]}
 {:steps [{:delta "Done."}]}] :then :cycle}]]
local HANGS = '{:turns [{:steps [{:delta "Wait"} {:sleep-ms 3600000}]} {:steps [{:delta "Steered."}]}]}'

return function(test, support)
  local plugin = require('edn-bridge')

  local function lines(buffer)
    return table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), '\n')
  end

  local function shows(chat, text)
    return lines(chat.transcript.buffer):find(text, 1, true) ~= nil
  end

  local function wait_for(chat, text)
    support.told = function()
      return lines(chat.transcript.buffer)
    end
    support.wait(text, function()
      return shows(chat, text)
    end)
  end

  --- Replaces a function of Neovim that asks or tells the person, until the end of the test.
  local function replace(holder, name, with)
    local before = holder[name]
    holder[name] = with
    support.after(function()
      holder[name] = before
    end)
  end

  --- Opens the chat of a new project, connected.
  local function open(script, wrapper)
    local project = support.project(script)
    vim.cmd.cd(project.cwd)
    plugin.setup({ cmd = vim.list_extend(wrapper or {}, project.cmd), env = project.env })
    replace(vim, 'notify', function() end)
    vim.cmd.runtime('plugin/edn-bridge.lua')
    vim.cmd.EdnBridge()
    local chat = plugin.chat()
    support.after(function()
      chat.connection:close()
      vim.cmd('silent! %bwipeout!')
      vim.cmd.cd('/')
      support.told = nil
    end)
    support.wait('the connection', function()
      return chat.ready
    end)
    chat.project = project.cwd
    return chat
  end

  local function press(keys)
    vim.api.nvim_feedkeys(vim.keycode(keys), 'mtx', false)
  end

  --- Types a text into the draft and sends it.
  local function send(chat, text)
    vim.api.nvim_buf_set_lines(chat.draft, 0, -1, false, vim.split(text, '\n'))
    vim.api.nvim_set_current_win(vim.fn.win_findbuf(chat.draft)[1])
    press('<CR>')
  end

  local function question(chat)
    local buffer = support.wait('a question', function()
      return select(2, next(chat.questions))
    end)
    return buffer
  end

  local function idle(chat)
    support.wait('the end of the turn', function()
      return chat.state.phase == 'idle'
    end)
  end

  test('prompt_streams_into_the_transcript', function()
    local chat = open(HELLO)
    send(chat, 'Hi,\nagent.')
    wait_for(chat, 'Hello from the bridge.')
    idle(chat)
    support.same(lines(chat.transcript.buffer), '## You\n\nHi,\nagent.\n\n## Agent\n\nHello from the bridge.')
    support.same(lines(chat.draft), '')
    send(chat, 'Again.')
    support.wait('the second answer', function()
      return select(2, lines(chat.transcript.buffer):gsub('Hello from the bridge%.', '')) == 2
    end)
    support.same(vim.bo[chat.transcript.buffer].modifiable, false)
  end)

  test('answer_is_shown_while_it_streams', function()
    local chat = open(HANGS)
    send(chat, 'Hi.')
    wait_for(chat, '## Agent\n\nWait')
    support.same(chat.state.phase, 'streaming')
  end)

  test('window_follows_the_text_unless_one_reads', function()
    local chat = open(HELLO)
    local window = vim.fn.win_findbuf(chat.transcript.buffer)[1]
    send(chat, 'Hi.')
    wait_for(chat, 'Hello from the bridge.')
    idle(chat)
    support.same(vim.api.nvim_win_get_cursor(window)[1], vim.api.nvim_buf_line_count(chat.transcript.buffer))
    vim.api.nvim_win_set_cursor(window, { 1, 0 })
    send(chat, 'Again.')
    support.wait('the second answer', function()
      return select(2, lines(chat.transcript.buffer):gsub('Hello from the bridge%.', '')) == 2
    end)
    support.same(vim.api.nvim_win_get_cursor(window)[1], 1)
  end)

  test('approval_shows_the_diff_and_keeps_the_focus', function()
    local chat = open(WRITES)
    send(chat, 'Write.')
    local buffer = question(chat)
    assert(lines(buffer):find('write a.txt\n', 1, true), lines(buffer))
    assert(lines(buffer):find('+one\n+two', 1, true), lines(buffer))
    support.same(vim.bo[buffer].filetype, 'diff')
    support.same(vim.api.nvim_get_current_buf(), chat.draft)
    press('gq')
    support.same(vim.api.nvim_get_current_buf(), buffer)
    press('y')
    wait_for(chat, 'Done.')
    support.same(support.read(chat.project .. '/a.txt'), 'one\ntwo\n')
    assert(shows(chat, '- ✓ `write a.txt`'), lines(chat.transcript.buffer))
    support.same(next(chat.questions), nil)
    support.same(vim.api.nvim_buf_is_valid(buffer), false)
  end)

  test('question_hides_nothing_of_its_text', function()
    for name, value in pairs({ conceallevel = 3, foldenable = true, wrap = false }) do
      local before = vim.o[name]
      vim.o[name] = value
      support.after(function()
        vim.o[name] = before
      end)
    end
    local chat = open(WRITES)
    send(chat, 'Write.')
    local buffer = question(chat)
    local function settings()
      local window = vim.fn.win_findbuf(buffer)[1]
      return { vim.wo[window].conceallevel, vim.wo[window].foldenable, vim.wo[window].wrap }
    end
    support.same(settings(), { 0, false, true })
    -- Closed and shown again, it is the same.
    vim.api.nvim_win_close(vim.fn.win_findbuf(buffer)[1], true)
    press('gq')
    support.same(settings(), { 0, false, true })
    assert(vim.wo.winbar:find('y allow once', 1, true), vim.wo.winbar)
  end)

  test('question_without_a_window_waits_for_the_person', function()
    local chat = open(WRITES)
    -- As in the command-line window, where none can be opened.
    replace(vim.api, 'nvim_open_win', function()
      error('E11')
    end)
    send(chat, 'Write.')
    local buffer = question(chat)
    press('gq')
    support.same(vim.api.nvim_get_current_buf(), buffer)
    assert(vim.wo.winbar:find('y allow once', 1, true), vim.wo.winbar)
    press('y')
    wait_for(chat, 'Done.')
  end)

  test('approval_for_the_session_is_asked_once', function()
    local chat = open(WRITES)
    send(chat, 'Write.')
    question(chat)
    press('gqs')
    wait_for(chat, 'Done.')
    idle(chat)
    send(chat, 'Write again.')
    support.wait('the second end', function()
      return select(2, lines(chat.transcript.buffer):gsub('Done%.', '')) == 2
    end)
  end)

  test('approval_by_rule_is_asked_once', function()
    local chat = open(WRITES)
    send(chat, 'Write.')
    local buffer = question(chat)
    assert(lines(buffer):find('Rule: allow write a.txt', 1, true), lines(buffer))
    press('gqa')
    wait_for(chat, 'Done.')
    idle(chat)
    send(chat, 'Write again.')
    support.wait('the second end', function()
      return select(2, lines(chat.transcript.buffer):gsub('Done%.', '')) == 2
    end)
  end)

  test('rejection_tells_the_model_why', function()
    local chat = open(WRITES)
    replace(vim.ui, 'input', function(_, answer)
      answer('not that file')
    end)
    send(chat, 'Write.')
    question(chat)
    press('gqn')
    wait_for(chat, '- ✗ `write a.txt`')
    local tool = chat.transcript.tools.c
    support.wait('the reason', function()
      return tool.details and tool.details:find('not that file')
    end)
    support.same(vim.uv.fs_stat(chat.project .. '/a.txt'), nil)
  end)

  test('question_that_is_withdrawn_is_closed', function()
    local chat = open(WRITES)
    send(chat, 'Write.')
    local buffer = question(chat)
    press('<C-c>')
    wait_for(chat, 'The turn was aborted.')
    support.same({ next(chat.questions), vim.api.nvim_buf_is_valid(buffer) }, { nil, false })
  end)

  test('abort_ends_the_turn', function()
    local chat = open(HANGS)
    send(chat, 'Hi.')
    wait_for(chat, 'Wait')
    press('<C-c>')
    wait_for(chat, 'The turn was aborted.')
    idle(chat)
  end)

  test('draft_sent_during_a_turn_steers_it', function()
    local chat = open([[{:turns [{:steps [{:delta "I write."}
      {:tool-call {:id "c" :name "write" :arguments {:path "a.txt" :content "one\n"}}}]}
      {:steps [{:echo :last-user}]}]}]])
    send(chat, 'Write.')
    question(chat)
    send(chat, 'Think of the tests.')
    support.wait('the draft was taken', function()
      return chat.state['pending-message-count'] == 1
    end)
    press('gqy')
    wait_for(chat, '## Agent\n\nThink of the tests.')
  end)

  test('refused_draft_comes_back', function()
    local chat = open(HELLO)
    send(chat, '/statsu')
    wait_for(chat, 'request/unknown-command')
    support.same(lines(chat.draft), '/statsu')
  end)

  test('command_shows_its_result', function()
    local chat = open(HELLO)
    send(chat, '/thinking high')
    wait_for(chat, 'Thinking level set to high')
  end)

  test('command_that_needs_a_choice_offers_it', function()
    local chat = open(HELLO)
    local offered
    replace(vim.ui, 'select', function(items, options, choose)
      offered = vim.tbl_map(options.format_item, items)
      choose(items[5])
    end)
    send(chat, '/thinking')
    wait_for(chat, 'Thinking level set to high')
    support.same(#offered, 6)
  end)

  test('sessions_are_listed_and_switched', function()
    local chat = open('{:turns [{:steps [{:echo :last-user}]}]}')
    send(chat, 'First question.')
    wait_for(chat, '## Agent\n\nFirst question.')
    idle(chat)
    vim.cmd.EdnBridge('new')
    support.wait('an empty transcript', function()
      return lines(chat.transcript.buffer) == ''
    end)
    send(chat, 'Second question.')
    wait_for(chat, '## Agent\n\nSecond question.')
    idle(chat)
    local offered
    replace(vim.ui, 'select', function(sessions, options, choose)
      offered = vim.tbl_map(options.format_item, sessions)
      for _, session in ipairs(sessions) do
        if not session['is-active'] then
          choose(session)
        end
      end
    end)
    vim.cmd.EdnBridge('sessions')
    wait_for(chat, '## You\n\nFirst question.\n\n## Agent\n\nFirst question.')
    assert(not shows(chat, 'Second'))
    support.same(#offered, 2)
    assert(table.concat(offered, '\n'):find('* Second question.', 1, true), vim.inspect(offered))
  end)

  test('killed_bridge_is_told_and_connected_again', function()
    local chat = open(HELLO)
    send(chat, 'Hi.')
    wait_for(chat, 'Hello from the bridge.')
    idle(chat)
    local session = chat.state['session-id']
    chat.connection:kill()
    wait_for(chat, 'the bridge has ended (signal 9)')
    vim.cmd.EdnBridge()
    support.wait('the session again', function()
      return chat.ready and chat.state['session-id'] == session and not shows(chat, 'ended')
    end)
    wait_for(chat, 'Hello from the bridge.')
    send(chat, 'Again.')
    support.wait('the second answer', function()
      return select(2, lines(chat.transcript.buffer):gsub('Hello from the bridge%.', '')) == 2
    end)
  end)

  test('lost_delta_is_made_good', function()
    -- The real bridge, behind a line that loses the first delta.
    local chat = open(HELLO, { 'sh', '-c', '"$@" | sed -u "/assistant.delta.*:at 0/d"', 'sh' })
    send(chat, 'Hi.')
    wait_for(chat, '## You\n\nHi.\n\n## Agent\n\nHello from the bridge.')
  end)

  test('torn_answer_is_told', function()
    support.after(function()
      vim.cmd('silent! %bwipeout!')
    end)
    local transcript = require('edn-bridge.transcript').new('edn-bridge://test')
    transcript:stream('t', 1, 0, 'One tw')
    -- What is shown already comes again after a reconnect.
    transcript:stream('t', 1, 4, 'two')
    support.same(transcript:answer('t', 'One two'), true)
    support.same(lines(transcript.buffer), '## Agent\n\nOne two')
    transcript:stream('t', 2, 4, 'again')
    support.same(transcript:answer('t', 'Not again'), false)
  end)

  test('name_of_a_session_is_not_evaluated', function()
    local chat = open(HELLO)
    chat:request('set_session_name', { name = '%{1+1} %=x' })
    local window = vim.fn.win_findbuf(chat.transcript.buffer)[1]
    support.wait('the name', function()
      return vim.api.nvim_eval_statusline(vim.wo[window].winbar, { winid = window }).str:find('%{1+1} %=x', 1, true)
    end)
  end)

  test('only_what_needs_a_chat_starts_one', function()
    local project = support.project(HELLO)
    vim.cmd.cd(project.cwd)
    support.after(function()
      vim.cmd.cd('/')
    end)
    plugin.setup({ cmd = project.cmd, env = project.env })
    local told = {}
    replace(vim, 'notify', function(text)
      told[#told + 1] = text
    end)
    vim.cmd.runtime('plugin/edn-bridge.lua')
    for _, name in ipairs({ 'close', 'abort', 'question', 'send' }) do
      vim.cmd.EdnBridge(name)
      support.same(require('edn-bridge.chat').all[project.cwd], nil, name)
    end
    support.same(#told, 4)
  end)

  test('closed_chat_stays_closed', function()
    local chat = open(HELLO)
    for _, name in ipairs({ 'close', 'abort', 'question', 'send', 'close' }) do
      vim.cmd.EdnBridge(name)
      support.same(chat.connection.closed, 'the connection was closed', name)
    end
    vim.api.nvim_buf_delete(chat.draft, { force = true })
    vim.cmd.EdnBridge('send')
  end)

  test('history_after_a_loss_says_that_it_is_not_all', function()
    -- The real bridge, behind a line that loses the first delta and has the history cut.
    local chat = open(HELLO, { 'sh', '-c', [[sed -u '/"get_messages"/s/:params {/&:limit 1 /' |
      "$@" | sed -u "/assistant.delta.*:at 0/d"]], 'sh' })
    send(chat, 'Hi.')
    wait_for(chat, 'Hello from the bridge.')
    idle(chat)
    send(chat, 'Again.')
    wait_for(chat, 'Earlier messages are not shown.')
  end)

  test('call_shows_what_it_did', function()
    local chat = open(WRITES)
    send(chat, 'Write.')
    question(chat)
    press('gqy')
    wait_for(chat, 'Done.')
    local window = vim.fn.win_findbuf(chat.transcript.buffer)[1]
    vim.api.nvim_set_current_win(window)
    for row, line in ipairs(vim.api.nvim_buf_get_lines(chat.transcript.buffer, 0, -1, false)) do
      if line:find('write a.txt', 1, true) then
        vim.api.nvim_win_set_cursor(window, { row, 0 })
      end
    end
    press('<CR>')
    assert(lines(0):find('+two', 1, true), lines(0))
  end)

  for name, case in pairs({ one = { nil, { index = 9 } }, several = { true, { indices = { 9 } } } }) do
    test('tenth_option_is_chosen_from_a_list_of_' .. name, function()
      support.after(function()
        vim.cmd('silent! %bwipeout!')
      end)
      local offered
      replace(vim.ui, 'select', function(options, how, choose)
        offered = vim.tbl_map(how.format_item, options)
        choose(options[10], 10)
      end)
      local payload = { prompt = 'Which?', multi = case[1], options = {} }
      for place = 1, 10 do
        payload.options[place] = { label = 'Option ' .. place }
      end
      local sent
      local data = { kind = 'select', payload = payload, ['interaction-id'] = 'i-' .. name }
      local buffer = require('edn-bridge.questions').show(data, 0, function(params)
        sent = params
      end)
      vim.api.nvim_set_current_win(vim.fn.win_findbuf(buffer)[1])
      press('1')
      support.same(sent, nil)
      assert(vim.wo.winbar:find('y choose', 1, true), vim.wo.winbar)
      press('y')
      support.same(sent, { ['interaction-id'] = 'i-' .. name, status = 'accepted', value = case[2] })
      support.same({ #offered, offered[10] }, { 10, 'Option 10' })
    end)
  end

  --- A language server that reports each "bad" of a text as an error, and nothing of one with "slow".
  local function serve(buffer)
    local function report(dispatchers, document, text)
      local found = {}
      for place, line in ipairs(vim.split(text, '\n')) do
        local at = line:find('bad', 1, true)
        if at then
          local range = { start = { line = place - 1, character = at - 1 }, ['end'] = { line = place - 1, character = at } }
          found[#found + 1] = { range = range, severity = 1, source = 'test', message = 'bad is here' }
        end
      end
      if not text:find('slow', 1, true) then
        vim.schedule(function()
          dispatchers.notification('textDocument/publishDiagnostics', { uri = document.uri, diagnostics = found })
        end)
      end
    end
    return vim.lsp.start({
      name = 'edn-bridge-test',
      cmd = function(dispatchers)
        local closing = false
        return {
          request = function(method, _, callback)
            local sync = { openClose = true, change = 1, save = {} }
            callback(nil, method == 'initialize' and { capabilities = { textDocumentSync = sync } } or vim.NIL)
            return true, 1
          end,
          notify = function(method, params)
            if method == 'textDocument/didOpen' then
              report(dispatchers, params.textDocument, params.textDocument.text)
            elseif method == 'textDocument/didChange' then
              report(dispatchers, params.textDocument, params.contentChanges[1].text)
            end
            return true
          end,
          is_closing = function()
            return closing
          end,
          terminate = function()
            closing = true
          end,
        }
      end,
    }, { bufnr = buffer })
  end

  test('diagnostics_that_are_new_end_the_result_of_an_edit', function()
    local function edit(old, new)
      return ('{:steps [{:tool-call {:name "edit" :arguments {:path "a.txt" :edits [{:old "%s" :new "%s"}]}}}]}'):format(
        old, new)
    end
    local chat = open(('{:turns [%s %s %s {:steps [{:delta "Done."}]}]}'):format(
      edit('one', 'bad\\nbad two'), edit('two', 'three'), edit('three', 'slow bad')), nil)
    support.write(chat.project .. '/a.txt', 'bad\none\n')
    vim.cmd('split ' .. chat.project .. '/a.txt')
    local buffer = vim.api.nvim_get_current_buf()
    serve(buffer)
    support.wait('the first report', function()
      return #vim.diagnostic.get(buffer) == 1
    end)
    replace(require('edn-bridge.questions'), 'show', function(_, _, answer)
      vim.schedule(function()
        answer({ status = 'accepted' })
      end)
      return vim.api.nvim_create_buf(false, true)
    end)
    local results = {}
    local tool = chat.transcript.tool
    chat.transcript.tool = function(self, id, mark, summary, details)
      if details then
        results[#results + 1] = details
      end
      return tool(self, id, mark, summary, details)
    end
    chat:request('set_mode', { mode = 'yolo' })
    send(chat, 'Edit.')
    wait_for(chat, 'Done.')
    local list = 'Diagnostics in the user\'s editor that are new:\n'
    assert(results[1]:find(list .. '2:1 error: bad is here (test)\n3:1 error: bad is here (test)\n', 1, true), results[1])
    assert(not results[2]:find('Diagnostics', 1, true), results[2])
    assert(not results[3]:find('Diagnostics', 1, true), results[3])
    -- The buffer has followed its file.
    support.same(lines(buffer), 'bad\nbad\nbad slow bad')
  end)

  --- Questions that no scripted model asks, by their payloads: what is shown, and what a key answers.
  for name, case in pairs({
    confirm = { { prompt = 'Delete all?' }, 'n', { ok = false } },
    select = { { prompt = 'Which?', options = { { label = 'One' }, { label = 'Two' } } }, '2', { index = 1 } },
    ask = { { prompt = 'Name?' }, 'y', { text = 'typed' } },
    ['approve-subagent-envelope'] = { { ['prompt-summary'] = 'Look.' }, 'y', { outcome = 'approve' } },
  }) do
    test('question_of_kind_' .. name:gsub('-', '_') .. '_is_answered', function()
      support.after(function()
        vim.cmd('silent! %bwipeout!')
      end)
      replace(vim.ui, 'input', function(_, answer)
        answer('typed')
      end)
      local sent
      local data = { kind = name, payload = case[1], ['interaction-id'] = 'i-' .. name }
      local buffer = require('edn-bridge.questions').show(data, 0, function(params)
        sent = params
      end)
      assert(lines(buffer):find(case[1].prompt or case[1]['prompt-summary'], 1, true))
      vim.api.nvim_set_current_win(vim.fn.win_findbuf(buffer)[1])
      press(case[2])
      support.same(sent, { ['interaction-id'] = 'i-' .. name, status = 'accepted', value = case[3] })
      press('q')
      support.same(sent.status, 'cancelled')
    end)
  end
end
