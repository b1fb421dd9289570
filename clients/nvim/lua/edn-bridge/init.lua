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
  return require('edn-bridge.chat').get({ cmd = M.options.cmd, env = M.options.env, cwd = M.folder() })
end

function M.folder()
  return vim.uv.fs_realpath(vim.fn.getcwd())
end

--- A command for the chat of the current folder. It starts nothing: without a chat there is nothing to do.
local function of_open_chat(method)
  return function()
    local chat = require('edn-bridge.chat').all[M.folder()]
    if chat then
      return chat[method](chat)
    end
    vim.notify('This folder has no chat; :EdnBridge opens one.')
  end
end

--- What `:EdnBridge NAME` does.
M.commands = {
  open = function()
    M.chat():open()
  end,
  send = of_open_chat('send'),
  abort = of_open_chat('abort'),
  question = of_open_chat('go_to_question'),
  sessions = function()
    M.chat():choose_session()
  end,
  new = function()
    M.chat():new_session()
  end,
  close = of_open_chat('close'),
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
