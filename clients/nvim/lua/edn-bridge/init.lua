--- Settings and commands.
local M = {}

--- The program and its options; further variables for it.
M.options = { cmd = { 'edn-bridge', 'serve' }, env = nil }

---@param options? {cmd?: string[], env?: table<string,string>}
function M.setup(options)
  M.options = vim.tbl_extend('force', M.options, options or {})
end

--- The chat of the current folder; it connects if it is not connected.
---@return EdnBridgeChat
function M.chat()
  local cwd = vim.uv.fs_realpath(vim.fn.getcwd())
  return require('edn-bridge.chat').get({ cmd = M.options.cmd, env = M.options.env, cwd = cwd })
end

--- What `:EdnBridge NAME` does.
M.commands = {
  open = function()
    M.chat():open()
  end,
  send = function()
    M.chat():send()
  end,
  abort = function()
    M.chat():abort()
  end,
  question = function()
    M.chat():go_to_question()
  end,
  sessions = function()
    M.chat():choose_session()
  end,
  new = function()
    M.chat():new_session()
  end,
  close = function()
    M.chat().connection:close()
  end,
}

function M.run(name)
  local command = M.commands[name == '' and 'open' or name]
  if command then
    return command()
  end
  vim.notify(('No such command: %s. There are: %s'):format(name, table.concat(M.names(), ' ')), vim.log.levels.ERROR)
end

function M.names()
  local names = vim.tbl_keys(M.commands)
  table.sort(names)
  return names
end

return M
