--- The buffer of a conversation: text is only added at its end. Knows no connection and no key.
local M = {}

local marks = vim.api.nvim_create_namespace('edn-bridge')

---@class EdnBridgeTranscript
---@field buffer integer
local Transcript = {}
Transcript.__index = Transcript

--- Makes a scratch buffer that no file, modeline or swap file belongs to.
function M.scratch(name, filetype)
  local buffer = vim.api.nvim_create_buf(false, true)
  pcall(vim.api.nvim_buf_set_name, buffer, name)
  vim.bo[buffer].undolevels = -1
  vim.bo[buffer].modeline = false
  vim.bo[buffer].filetype = filetype
  return buffer
end

---@return EdnBridgeTranscript
function M.new(name)
  local self = setmetatable({ buffer = M.scratch(name, 'markdown') }, Transcript)
  vim.bo[self.buffer].modifiable = false
  self:clear()
  return self
end

--- Sets lines of a buffer that people cannot change.
local function change(buffer, set)
  vim.bo[buffer].modifiable = true
  set()
  vim.bo[buffer].modifiable = false
end

function Transcript:clear()
  --- The role of the block at the end, and the part of the answer that is shown: turn, call, number of characters.
  self.role, self.shown = nil, {}
  --- Streamed text that is not in the buffer yet.
  self.pending = {}
  --- Calls of tools by id: the mark of their line, and what they did.
  self.tools = {}
  change(self.buffer, function()
    vim.api.nvim_buf_clear_namespace(self.buffer, marks, 0, -1)
    vim.api.nvim_buf_set_lines(self.buffer, 0, -1, false, {})
  end)
end

--- The windows whose cursor is on the last line: they follow the text.
function Transcript:_followers()
  local last = vim.api.nvim_buf_line_count(self.buffer)
  return vim.tbl_filter(function(window)
    return vim.api.nvim_win_get_cursor(window)[1] == last
  end, vim.fn.win_findbuf(self.buffer))
end

--- Adds text at the end.
function Transcript:_append(text)
  if not vim.api.nvim_buf_is_valid(self.buffer) then
    return
  end
  local followers = self:_followers()
  local last = vim.api.nvim_buf_line_count(self.buffer) - 1
  local width = #vim.api.nvim_buf_get_lines(self.buffer, last, last + 1, false)[1]
  change(self.buffer, function()
    vim.api.nvim_buf_set_text(self.buffer, last, width, last, width, vim.split(text, '\n', { plain = true }))
  end)
  last = vim.api.nvim_buf_line_count(self.buffer)
  for _, window in ipairs(followers) do
    vim.api.nvim_win_set_cursor(window, { last, 0 })
  end
end

--- Starts a block at the end, with a heading if another role spoke before.
function Transcript:_begin(role)
  self:flush()
  if self.role ~= role then
    local empty = vim.api.nvim_buf_line_count(self.buffer) == 1
      and vim.api.nvim_buf_get_lines(self.buffer, 0, 1, false)[1] == ''
    self:_append((empty and '' or '\n\n') .. (role == 'tools' and '' or '## ' .. role .. '\n\n'))
    self.role = role
  end
end

--- A whole block.
function Transcript:say(role, text)
  self:_begin(role)
  self:_append(text)
  -- What follows is another block, even of the same role.
  self.role = nil
end

--- A line of the client itself.
function Transcript:note(text)
  self:say('Note', text)
end

--- Takes streamed text; `flush` shows it. `at` is the number of characters of this call's text before it.
function Transcript:stream(turn, call, at, text)
  local shown = self.shown
  if shown.turn ~= turn or shown.call ~= call then
    self:flush()
    if self.role == 'Agent' then
      self:_append('\n\n')
    end
    shown = { turn = turn, call = call, count = 0 }
    self.shown = shown
  end
  if at > shown.count then
    -- The start was lost, or came before the transcript was built: `answer` tells.
    shown.torn, shown.count = true, at
  end
  if at < shown.count then
    text = vim.fn.strcharpart(text, shown.count - at)
  end
  if text ~= '' then
    shown.count = shown.count + vim.fn.strchars(text)
    table.insert(self.pending, text)
  end
end

--- Shows the streamed text: once for each part of the queue, so that many deltas cost one change of the buffer.
function Transcript:flush()
  if #self.pending == 0 then
    return
  end
  local text = table.concat(self.pending)
  self.pending = {}
  self:_begin('Agent')
  self:_append(text)
end

--- The model's message is complete: shows it unless it was streamed. Returns false if only a part was streamed; the
--- transcript has to be built anew then.
function Transcript:answer(turn, text, ending)
  self:flush()
  if self.shown.turn == turn and not self.shown.whole then
    self.shown.whole = true
    if self.shown.torn then
      return false
    end
  elseif text ~= '' then
    if self.role == 'Agent' then
      self:_append('\n\n')
    end
    self:_begin('Agent')
    self:_append(text)
    self.shown = { turn = turn, whole = true }
  end
  if ending then
    self:say('Note', ending)
  end
  return true
end

--- One line for each call of a tool: its state, name and summary, and what it did for `details`.
function Transcript:tool(id, state, summary, details)
  local known = self.tools[id]
  -- A summary is one line.
  local line = ('- %s `%s`'):format(state, summary:gsub('[\n`]', ' '))
  if known then
    local row = vim.api.nvim_buf_get_extmark_by_id(self.buffer, marks, known.mark, {})[1]
    change(self.buffer, function()
      vim.api.nvim_buf_set_lines(self.buffer, row, row + 1, false, { line })
    end)
    -- Replacing the line has moved the mark.
    vim.api.nvim_buf_set_extmark(self.buffer, marks, row, 0, { id = known.mark })
  else
    self:flush()
    if self.role == 'tools' then
      self:_append('\n')
    end
    self:_begin('tools')
    self:_append(line)
    local mark = vim.api.nvim_buf_set_extmark(self.buffer, marks, vim.api.nvim_buf_line_count(self.buffer) - 1, 0, {})
    known = { mark = mark }
    self.tools[id] = known
  end
  known.details = details or known.details
end

--- What the tool on a line did, if one is there.
function Transcript:details(row)
  for _, known in pairs(self.tools) do
    if vim.api.nvim_buf_get_extmark_by_id(self.buffer, marks, known.mark, {})[1] == row then
      return known.details
    end
  end
end

return M
