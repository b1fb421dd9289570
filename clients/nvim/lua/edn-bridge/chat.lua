--- The chat of a folder: a transcript, a draft below it, and a connection. Events become text; keys become requests.
local diagnostics = require('edn-bridge.diagnostics')
local questions = require('edn-bridge.questions')
local rpc = require('edn-bridge.rpc')
local transcript = require('edn-bridge.transcript')

local M = {}

M.TOPICS = {
  'assistant/delta', 'assistant/message', 'user/message', 'tool/start', 'tool/executing', 'tool/result', 'turn/ended', 'turn/retry',
  'interaction/requested', 'interaction/answered', 'session/updated', 'session/rehydrated', 'command-result',
  'ui/frontend-action-requested', 'ui/notification', 'messages/replaced', 'error',
}

--- The chats by folder.
M.all = {}

---@class EdnBridgeChat
---@field cwd string
---@field transcript EdnBridgeTranscript
---@field draft integer the buffer of the draft
---@field connection EdnBridgeConnection
---@field state table the last `session/updated`
---@field questions table<string, integer> buffers of the open questions
local Chat = {}
Chat.__index = Chat

--- The text of a message. An event has a long one only in its blocks.
local function text_of(message)
  local parts = {}
  for _, block in ipairs(message.content or {}) do
    if block.type == 'text' then
      parts[#parts + 1] = block.text
    end
  end
  return message.text or table.concat(parts)
end

--- Calls `callback` with an error as a note instead.
function Chat:request(op, params, callback)
  self.connection:request(op, params, function(err, data)
    if err then
      self:note(('%s (%s)'):format(err.message, err.code))
    elseif callback then
      callback(data)
    end
  end)
end

function Chat:note(text)
  if vim.api.nvim_buf_is_valid(self.transcript.buffer) then
    self.transcript:note(text)
  end
end

--- What each topic does.
local on = {}

on['assistant/delta'] = function(chat, data)
  chat.transcript:stream(data['turn-id'], data.call, data.at or 0, data.text)
end

on['assistant/message'] = function(chat, data)
  if not chat.transcript:answer(data['turn-id'], text_of(data), data['error-message']) then
    chat:reload()
  end
end

on['user/message'] = function(chat, data)
  chat.transcript:say('You', text_of(data))
end

on['tool/start'] = function(chat)
  chat.diagnostics:tell()
end

on['file/requested'] = function(chat, data)
  chat.diagnostics:answer(data)
end

on['tool/executing'] = function(chat, data)
  chat.transcript:tool(data['tool-id'], '…', data['call-summary'])
end

on['tool/result'] = function(chat, data)
  local details = data['result-text']
  if data.details and data.details.diff then
    details = details .. '\n\n' .. data.details.diff
  end
  chat.transcript:tool(data['tool-id'], data['is-error'] and '✗' or '✓', data['call-summary'], details)
end

on['turn/ended'] = function(chat, data)
  if data.outcome ~= 'completed' then
    chat:note('The turn was ' .. data.outcome .. '.')
  end
  -- The next message gets a heading of its own.
  chat.transcript.role = nil
end

on['turn/retry'] = function(chat, data)
  if data.discarded then
    -- The journal has nothing of the answer that was dropped.
    chat:reload()
  end
  chat:note(('The model is %s; trying again in %d s.'):format(data.kind, math.ceil(data['pause-ms'] / 1000)))
end

on['interaction/requested'] = function(chat, data)
  local id = data['interaction-id']
  if chat.questions[id] then
    return
  end
  local beside = vim.fn.win_findbuf(chat.draft)[1] or 0
  chat.questions[id] = questions.show(data, beside, function(params)
    chat:request('interaction_respond', params)
  end)
  vim.notify('The agent asks: :EdnBridge question')
end

on['interaction/answered'] = function(chat, data)
  local buffer = chat.questions[data['interaction-id']]
  chat.questions[data['interaction-id']] = nil
  if buffer and vim.api.nvim_buf_is_valid(buffer) then
    vim.api.nvim_buf_delete(buffer, { force = true })
  end
end

on['session/updated'] = function(chat, data)
  chat.state = data
  chat:show_state()
end

--- The session was switched to, or a loss is made good: its history as a whole.
on['session/rehydrated'] = function(chat, data)
  chat:rebuild(data)
end

on['messages/replaced'] = function(chat)
  chat:reload()
end

on['command-result'] = function(chat, data)
  if data.type == 'quit' then
    chat.connection:close()
  elseif data.message then
    chat:note(data.message)
  end
end

on['ui/notification'] = function(_, data)
  vim.notify(data.message, data.level == 'error' and vim.log.levels.ERROR or vim.log.levels.INFO)
end

on['error'] = function(chat, data)
  chat:note(('%s (%s)'):format(data['error-message'], data['error-code']))
end

--- A command needs a choice.
on['ui/frontend-action-requested'] = function(chat, data)
  local action = data['ui/action']
  vim.ui.select(action['ui/items'], {
    prompt = action['ui/prompt'],
    format_item = function(item)
      return item['ui.item/label']
    end,
  }, function(item)
    chat:request('frontend_action_result', {
      ['request-id'] = data['request-id'],
      ['action-name'] = action['ui/action-name'],
      status = item and 'submitted' or 'cancelled',
      value = item and item['ui.item/value'] or nil,
    })
  end)
end

--- Shows the messages of a session in place of the transcript.
---@param data {messages: table[], more?: boolean}
function Chat:rebuild(data)
  self.transcript:clear()
  local calls = {}
  for _, message in ipairs(data.messages) do
    local text = text_of(message)
    if message.role == 'user' then
      self.transcript:say('You', text)
    elseif message.role == 'assistant' then
      if text ~= '' then
        self.transcript:say('Agent', text)
      end
      for _, block in ipairs(message.content) do
        if block.type == 'tool-call' then
          calls[block.id] = block.name
          self.transcript:tool(block.id, '…', block.name)
        end
      end
    elseif message.role == 'tool' then
      local id = message['tool-call-id']
      local name = message['tool-name'] or calls[id] or 'tool'
      self.transcript:tool(id, message['is-error'] and '✗' or '✓', name, text)
    end
  end
  if data.more then
    self:note('Earlier messages are not shown.')
  end
end

--- Fetches the history and shows it anew. What is streamed meanwhile stands in the next messages.
function Chat:reload()
  self:request('get_messages', {}, function(data)
    self:rebuild(data)
  end)
end

--- The window bar of the transcript: model, mode and what the session does.
function Chat:show_state()
  local state = self.state
  local parts = {
    state['session-display-name'] or '', state['model-id'] or '', state.mode or '', state.phase or '',
  }
  if self.connection.closed then
    parts = { 'not connected: :EdnBridge connects again' }
  end
  -- A `%` in a name would be evaluated.
  local text = table.concat(parts, ' · '):gsub('[%c]', ' '):gsub('%%', '%%%%')
  for _, window in ipairs(vim.fn.win_findbuf(self.transcript.buffer)) do
    vim.wo[window][0].winbar = text
  end
end

--- Connects, and continues `session_id` if it is given.
function Chat:connect(session_id)
  self.connection = rpc.start({
    cmd = self.options.cmd,
    env = self.options.env,
    cwd = self.cwd,
    features = { 'interactor' },
    on_ready = function(connection, err)
      if err then
        self:note(err.message)
        return connection:close()
      end
      self:request('subscribe', { topics = M.TOPICS }, function()
        self.diagnostics = diagnostics.new(self.cwd, function(op, params)
          -- A bridge of an earlier version has no such op, and a request may have been cancelled.
          self.connection:request(op, params)
        end)
        if session_id then
          self:request('switch_session', { ['session-id'] = session_id })
        end
        self.ready = true
      end)
    end,
    on_event = function(event)
      local handle = on[event.topic]
      if handle and vim.api.nvim_buf_is_valid(self.transcript.buffer) then
        handle(self, event.data)
      end
    end,
    on_batch = function()
      self.transcript:flush()
    end,
    on_gap = function()
      self:reload()
    end,
    on_close = function(reason)
      self.ready = false
      for id in pairs(vim.deepcopy(self.questions)) do
        on['interaction/answered'](self, { ['interaction-id'] = id })
      end
      if vim.api.nvim_buf_is_valid(self.transcript.buffer) then
        self.transcript:flush()
        self:note(reason)
        self:show_state()
      end
    end,
  })
end

--- Sends the draft: as a prompt, or to the running turn.
function Chat:send()
  if not vim.api.nvim_buf_is_valid(self.draft) then
    return vim.notify('The draft was closed; :EdnBridge opens the chat again.', vim.log.levels.WARN)
  end
  local text = table.concat(vim.api.nvim_buf_get_lines(self.draft, 0, -1, false), '\n')
  if not text:find('%S') then
    return
  elseif not self.ready then
    return vim.notify('The chat is not connected.', vim.log.levels.WARN)
  end
  self.diagnostics:tell()
  local op = self.state['is-streaming'] and 'steer' or 'prompt'
  vim.api.nvim_buf_set_lines(self.draft, 0, -1, false, {})
  self.connection:request(op, { message = text }, function(err)
    if err then
      self:note(('%s (%s)'):format(err.message, err.code))
      -- The text must not be lost, nor what was typed since.
      local since = vim.api.nvim_buf_get_lines(self.draft, 0, -1, false)
      local lines = vim.split(text, '\n', { plain = true })
      vim.api.nvim_buf_set_lines(self.draft, 0, -1, false, since[1] == '' and lines or vim.list_extend(lines, since))
    end
  end)
end

function Chat:abort()
  self:request('abort')
end

function Chat:close()
  self.connection:close()
end

--- Goes to an open question.
function Chat:go_to_question()
  for _, buffer in pairs(self.questions) do
    local window = vim.fn.win_findbuf(buffer)[1]
    if window then
      return vim.api.nvim_set_current_win(window)
    end
    return vim.cmd.sbuffer(buffer)
  end
  vim.notify('No question is open.')
end

--- Offers the sessions of the folder and switches to one.
function Chat:choose_session()
  self:request('list_sessions', {}, function(data)
    vim.ui.select(data.sessions, {
      prompt = 'Session',
      format_item = function(session)
        local mark = session['is-active'] and '* ' or session['is-streaming'] and '> ' or '  '
        return ('%s%s  (%s)'):format(mark, session['display-name'] or session.id, session['created-at'] or '')
      end,
    }, function(session)
      if session then
        self:request('switch_session', { ['session-id'] = session.id })
      end
    end)
  end)
end

function Chat:new_session()
  self:request('new_session')
end

--- Shows what the tool call at the cursor did, in a split.
function Chat:show_details()
  local details = self.transcript:details(vim.api.nvim_win_get_cursor(0)[1] - 1)
  if details then
    local buffer = transcript.scratch('edn-bridge://details/' .. vim.uv.hrtime(), 'diff')
    vim.api.nvim_buf_set_lines(buffer, 0, -1, false, vim.split(details, '\n', { plain = true }))
    vim.bo[buffer].modifiable = false
    vim.bo[buffer].bufhidden = 'wipe'
    local window = vim.api.nvim_open_win(buffer, true, { split = 'below' })
    vim.wo[window][0].winbar = ''
  end
end

--- Shows the windows of the chat, and puts the cursor into the draft.
function Chat:open()
  if #vim.fn.win_findbuf(self.transcript.buffer) == 0 then
    local window = vim.api.nvim_open_win(self.transcript.buffer, true, { split = 'right', win = -1 })
    vim.wo[window][0].wrap, vim.wo[window][0].linebreak = true, true
  end
  if #vim.fn.win_findbuf(self.draft) == 0 then
    local beside = vim.fn.win_findbuf(self.transcript.buffer)[1]
    local window = vim.api.nvim_open_win(self.draft, true, { split = 'below', win = beside, height = 5 })
    vim.wo[window][0].winbar = '<CR> send   <C-c> abort   gq question'
  end
  vim.api.nvim_set_current_win(vim.fn.win_findbuf(self.draft)[1])
  self:show_state()
end

--- The chat of a folder, made and connected if necessary.
---@param options {cmd: string[], cwd: string, env?: table<string,string>}
function M.get(options)
  local chat = M.all[options.cwd]
  if chat and vim.api.nvim_buf_is_valid(chat.transcript.buffer) and vim.api.nvim_buf_is_valid(chat.draft) then
    if chat.connection.closed then
      chat.options = options
      -- A session without a message is gone with its bridge.
      chat:connect(chat.state['session-file'] and chat.state['session-id'])
    end
    return chat
  elseif chat then
    chat.connection:close()
  end
  chat = setmetatable({ options = options, cwd = options.cwd, state = {}, questions = {} }, Chat)
  chat.transcript = transcript.new('edn-bridge://chat' .. options.cwd)
  chat.draft = transcript.scratch('edn-bridge://draft' .. options.cwd, 'markdown')
  vim.bo[chat.draft].undolevels = vim.go.undolevels
  local function map(buffer, modes, key, method, hint)
    vim.keymap.set(modes, key, function()
      chat[method](chat)
    end, { buffer = buffer, desc = 'edn-bridge: ' .. hint })
  end
  map(chat.draft, 'n', '<CR>', 'send', 'send the draft')
  map(chat.draft, { 'n', 'i' }, '<C-s>', 'send', 'send the draft')
  for _, buffer in ipairs({ chat.draft, chat.transcript.buffer }) do
    map(buffer, 'n', '<C-c>', 'abort', 'abort the turn')
    map(buffer, 'n', 'gq', 'go_to_question', 'go to an open question')
  end
  map(chat.transcript.buffer, 'n', '<CR>', 'show_details', 'show what the tool call did')
  M.all[options.cwd] = chat
  chat:connect()
  return chat
end

return M
