--- What language servers newly report of a file that the agent has changed. The bridge learns which open files have a
--- language server, and asks after each change. It alone reads and writes the files; a buffer gets what is on disk.
local M = {}

--- The files that the bridge is told of, and the diagnostics and characters of one that are sent, at most.
M.MAX_FILES, M.MAX_SENT, M.MAX_LENGTH = 1000, 200, 1000
--- The milliseconds that the way of an answer takes.
M.MARGIN = 200

local WORDS = {
  [vim.diagnostic.severity.ERROR] = 'error',
  [vim.diagnostic.severity.WARN] = 'warning',
}

--- The buffers of files below a folder that a language server looks at, by their paths. Those with unsaved changes show
--- another text than the agent changes.
local function checked(folder)
  local buffers, count = {}, 0
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    local path = vim.uv.fs_realpath(vim.api.nvim_buf_get_name(buffer))
    if path and vim.api.nvim_buf_is_loaded(buffer) and vim.bo[buffer].buftype == '' and not vim.bo[buffer].modified
      and vim.startswith(path, folder .. '/') and next(vim.lsp.get_clients({ bufnr = buffer }))
      and count < M.MAX_FILES then
      buffers[path], count = buffer, count + 1
    end
  end
  return buffers
end

local Diagnostics = {}
Diagnostics.__index = Diagnostics

--- @param folder string
--- @param request fun(op: string, params: table, callback?: fun(err?: table))
function M.new(folder, request)
  return setmetatable({ folder = folder, request = request, told = '', known = {} }, Diagnostics)
end

--- Tells the bridge which files are open and checked, if that is news.
function Diagnostics:tell()
  local paths = vim.tbl_keys(checked(self.folder))
  table.sort(paths)
  local news = table.concat(paths, '\n')
  if news == self.told then
    return
  end
  self.told = news
  self.request('register_files', {
    files = vim.tbl_map(function(path)
      return { path = path, diagnostics = true }
    end, paths),
  })
end

--- What the servers report on a buffer, in the order of the lines.
local function now(buffer)
  local found = vim.diagnostic.get(buffer)
  table.sort(found, function(a, b)
    return a.lnum < b.lnum or a.lnum == b.lnum and a.col < b.col
  end)
  return vim.tbl_map(function(one)
    return {
      line = one.lnum + 1,
      column = one.col + 1,
      severity = WORDS[one.severity] or 'note',
      message = one.message:sub(1, M.MAX_LENGTH),
      source = one.source,
    }
  end, found)
end

--- Those that are not among the known ones, wherever they stand: lines move by an edit.
local function new_ones(found, known)
  local left, new = {}, {}
  local function key(one)
    return one.severity .. ' ' .. one.message
  end
  for _, one in ipairs(known) do
    left[key(one)] = (left[key(one)] or 0) + 1
  end
  for _, one in ipairs(found) do
    local count = left[key(one)] or 0
    left[key(one)] = count - 1
    if count < 1 and #new < M.MAX_SENT then
      new[#new + 1] = one
    end
  end
  return new
end

--- Answers a `file/requested`.
function Diagnostics:answer(data)
  local function send(answer)
    answer['request-id'] = data['request-id']
    self.request('file_result', answer)
  end
  local turn = data['turn-id']
  local buffer = checked(self.folder)[data.path]
  if not buffer then
    return send({ status = 'closed' })
  end
  if data.action ~= 'diagnostics' then
    -- Before the first change of the turn.
    if not self.known[buffer] or self.known[buffer].turn ~= turn then
      self.known[buffer] = { turn = turn, found = now(buffer) }
    end
    return send({ status = 'closed' })
  end
  local group = vim.api.nvim_create_augroup('edn-bridge-diagnostics-' .. data['request-id'], {})
  local timer = vim.uv.new_timer()
  local function finish()
    if not timer then
      return
    end
    timer:close()
    timer = nil
    vim.api.nvim_del_augroup_by_id(group)
    if not vim.api.nvim_buf_is_valid(buffer) then
      return send({ status = 'closed' })
    end
    local found, known = now(buffer), self.known[buffer]
    self.known[buffer] = { turn = turn, found = found }
    send({ status = 'ok', diagnostics = known and known.turn == turn and new_ones(found, known.found) or {} })
  end
  vim.api.nvim_create_autocmd('DiagnosticChanged', { group = group, buffer = buffer, callback = finish })
  timer:start(math.max(0, (data['timeout-ms'] or 0) - M.MARGIN), 0, vim.schedule_wrap(finish))
  -- The servers get the new text with the buffer. It has no changes of its own, so nothing is asked.
  vim.api.nvim_buf_call(buffer, function()
    local before = vim.o.autoread
    vim.o.autoread = true
    pcall(vim.cmd, 'silent! checktime')
    vim.o.autoread = before
  end)
  vim.lsp.buf_notify(buffer, 'textDocument/didSave', {
    textDocument = { uri = vim.uri_from_bufnr(buffer) },
  })
end

return M
