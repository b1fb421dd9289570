--- A connection to a bridge: a process, its lines, answers by id, events in order. Knows no buffer and no window.
---
--- Nothing here waits. The event loop's callbacks put bytes into a queue. A bounded part of the queue is read at a
--- time, and then the editor has its turn. While the queue is full, the pipe is not read; the bridge then merges its events.
local edn = require('edn-bridge.edn')

local M = {}

--- The bytes and frames that are handled before the editor has its turn.
M.BATCH_BYTES, M.BATCH_FRAMES = 256 * 1024, 200
--- The bytes in the queue above which the pipe is not read for the time being.
M.MAX_QUEUED = 1024 * 1024
--- The longest line. More than the bridge sends; a bound all the same.
M.MAX_LINE = 64 * 1024 * 1024
--- The milliseconds that a request waits for its answer.
M.TIMEOUT = 60000
--- The lines of standard error that are kept, to tell why the program ended.
M.MAX_ERROR_LINES = 10

---@class EdnBridgeConnection
---@field server_info? table what the bridge says of itself, after the handshake
---@field closed? string why the connection has ended
local Connection = {}
Connection.__index = Connection

---@class EdnBridgeError
---@field code string the wire's code, or "client/closed", "client/timeout", "client/invalid"
---@field message string
---@field data? table
---@field retryable boolean

--- Calls a function of the user of a connection. What it raises is told and stops neither the queue nor other calls.
local function call(run, ...)
  local ok, err = pcall(run, ...)
  if not ok then
    vim.notify('edn-bridge: ' .. tostring(err), vim.log.levels.ERROR)
  end
end

local function client_error(kind, message)
  return { code = 'client/' .. kind, message = message, retryable = false }
end

--- Starts a bridge and shakes hands.
---
---@param options {cmd: string[], cwd?: string, env?: table<string,string>, features?: string[], name?: string,
---  on_ready: fun(connection: EdnBridgeConnection, err?: EdnBridgeError),
---  on_event: fun(event: {topic: string, data: table, seq: integer, ts: string, id?: string}),
---  on_batch?: fun(), on_gap?: fun(missed: integer), on_close?: fun(reason: string)}
---  `on_batch` comes after each part of the queue, `on_gap` if events were lost. All run in the main loop.
---@return EdnBridgeConnection
function M.start(options)
  local self = setmetatable({
    options = options,
    pending = {},
    last_id = 0,
    seq = 0,
    chunks = {},
    first_chunk = 1,
    queued = 0,
    partial = {},
    partial_bytes = 0,
    errors = {},
  }, Connection)
  local uv = vim.uv
  self.stdin, self.stdout, self.stderr = uv.new_pipe(), uv.new_pipe(), uv.new_pipe()
  local env
  if options.env then
    env = {}
    for name, value in pairs(vim.tbl_extend('force', vim.fn.environ(), options.env)) do
      env[#env + 1] = name .. '=' .. value
    end
  end
  local handle, pid = uv.spawn(options.cmd[1], {
    args = vim.list_slice(options.cmd, 2),
    cwd = options.cwd,
    env = env,
    stdio = { self.stdin, self.stdout, self.stderr },
    hide = true,
  }, function(code, signal)
    self.status = signal ~= 0 and 'signal ' .. signal or 'exit status ' .. code
    self.process:close()
    self:_wake()
  end)
  if not handle then
    local reason = ('cannot start %s: %s'):format(options.cmd[1], pid)
    for _, pipe in ipairs({ self.stdin, self.stdout, self.stderr }) do
      pipe:close()
    end
    self.closed = reason
    vim.schedule(function()
      call(options.on_ready, self, client_error('closed', reason))
    end)
    return self
  end
  self.process, self.pid = handle, pid
  self.stderr:read_start(function(_, text)
    for line in (text or ''):gmatch('[^\n]+') do
      table.insert(self.errors, line:sub(1, 500))
      if #self.errors > M.MAX_ERROR_LINES then
        table.remove(self.errors, 1)
      end
    end
  end)
  self:_read()
  self:request('handshake', {
    ['client-info'] = {
      name = options.name or 'neovim',
      version = '1',
      ['protocol-version'] = '1.0',
      features = options.features or {},
    },
  }, function(err, data)
    self.server_info = data and data['server-info']
    options.on_ready(self, err)
  end)
  return self
end

--- Makes a request. `callback(err, data)` runs once in the main loop, whatever happens; `err` is an EdnBridgeError.
---@param op string
---@param params? table a table with string keys, which become keywords
---@param callback? fun(err?: EdnBridgeError, data?: table)
function Connection:request(op, params, callback)
  callback = callback or function() end
  local function refuse(kind, message)
    vim.schedule(function()
      call(callback, client_error(kind, op .. ': ' .. message))
    end)
  end
  if self.closed then
    return refuse('closed', self.closed)
  end
  self.last_id = self.last_id + 1
  local id = tostring(self.last_id)
  local frame = { id = id, kind = edn.keyword('request'), op = op, params = edn.map(params or {}) }
  local ok, line = pcall(edn.encode, frame)
  if not ok then
    return refuse('invalid', line)
  end
  local timer = vim.uv.new_timer()
  self.pending[id] = { callback = callback, timer = timer }
  timer:start(M.TIMEOUT, 0, vim.schedule_wrap(function()
    self:_settle(id, client_error('timeout', ('%s: no answer within %d s'):format(op, M.TIMEOUT / 1000)))
  end))
  self.stdin:write(line .. '\n')
end

--- Ends the connection: the bridge reads the end of its input and ends, or its daemon goes on.
function Connection:close()
  self:_end('the connection was closed')
end

--- Ends the process, which does not read its input's end.
function Connection:kill()
  if self.process and not self.process:is_closing() then
    self.process:kill('sigkill')
  end
end

function Connection:_settle(id, err, data)
  local pending = self.pending[id]
  if pending then
    self.pending[id] = nil
    pending.timer:close()
    call(pending.callback, err, data)
  end
end

function Connection:_read()
  self.paused = false
  self.stdout:read_start(function(err, chunk)
    if chunk then
      self.chunks[#self.chunks + 1] = chunk
      self.queued = self.queued + #chunk
      if self.queued > M.MAX_QUEUED then
        self.paused = true
        self.stdout:read_stop()
      end
    else
      self.ended = err or true
    end
    self:_wake()
  end)
end

function Connection:_wake()
  if not self.awake then
    self.awake = true
    vim.schedule(function()
      self:_drain()
    end)
  end
end

--- Handles a part of the queue.
function Connection:_drain()
  self.awake = false
  if self.closed then
    return
  end
  local bytes, frames = 0, 0
  while self.first_chunk <= #self.chunks and bytes < M.BATCH_BYTES and frames < M.BATCH_FRAMES do
    local chunk = self.chunks[self.first_chunk]
    local line_end = chunk:find('\n', 1, true)
    local piece = line_end and chunk:sub(1, line_end - 1) or chunk
    if line_end and line_end < #chunk then
      self.chunks[self.first_chunk] = chunk:sub(line_end + 1)
    else
      self.chunks[self.first_chunk] = false
      self.first_chunk = self.first_chunk + 1
    end
    local taken = line_end or #chunk
    bytes, self.queued = bytes + taken, self.queued - taken
    self.partial[#self.partial + 1] = piece
    self.partial_bytes = self.partial_bytes + #piece
    if self.partial_bytes > M.MAX_LINE then
      return self:_end(('the bridge sent a line of more than %d bytes'):format(M.MAX_LINE))
    end
    if line_end then
      local line = table.concat(self.partial)
      self.partial, self.partial_bytes, frames = {}, 0, frames + 1
      self:_take(line)
      if self.closed then
        return
      end
    end
  end
  if self.options.on_batch then
    call(self.options.on_batch)
  end
  if self.first_chunk <= #self.chunks then
    -- Not `schedule`: what a callback of it schedules runs before the next key is looked at.
    self.awake = true
    vim.defer_fn(function()
      self:_drain()
    end, 1)
    return
  end
  self.chunks, self.first_chunk = {}, 1
  if self.ended and self.status then
    local said = #self.errors > 0 and ': ' .. table.concat(self.errors, '\n') or ''
    self:_end(('the bridge has ended (%s)%s'):format(self.status, said))
  elseif self.paused and not self.ended then
    self:_read()
  end
end

function Connection:_take(line)
  local frame, err = edn.decode(line)
  if type(frame) ~= 'table' or not frame.kind then
    return self:_end('the bridge sent what is no frame: ' .. (err and err.message or 'it has no :kind'))
  end
  if frame.kind == 'event' then
    local missed = frame.seq - self.seq - 1
    self.seq = frame.seq
    if missed > 0 and self.options.on_gap then
      call(self.options.on_gap, missed)
    end
    local event = { topic = frame.event, data = frame.data, seq = frame.seq, ts = frame.ts, id = frame.id }
    call(self.options.on_event, event)
  elseif frame.kind == 'error' and frame.id then
    self:_settle(frame.id, {
      code = frame['error-code'],
      message = frame['error-message'],
      data = frame.data,
      retryable = frame.retryable == true,
    })
  elseif frame.kind == 'response' then
    self:_settle(frame.id, nil, frame.data)
  end
end

function Connection:_end(reason)
  if self.closed then
    return
  end
  self.closed = reason
  for _, pipe in ipairs({ self.stdin, self.stdout, self.stderr }) do
    if not pipe:is_closing() then
      pipe:close()
    end
  end
  for id in pairs(vim.deepcopy(vim.tbl_map(function()
    return true
  end, self.pending))) do
    self:_settle(id, client_error('closed', reason))
  end
  if self.options.on_close then
    call(self.options.on_close, reason)
  end
end

return M
