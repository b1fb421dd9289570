if vim.fn.has('nvim-0.10') == 0 then
  vim.notify_once('edn-bridge needs Neovim 0.10 or later', vim.log.levels.ERROR)
  return
end

vim.api.nvim_create_user_command('EdnBridge', function(command)
  require('edn-bridge').run(command.args)
end, {
  nargs = '?',
  desc = 'Chat with a coding agent',
  complete = function(start)
    return vim.tbl_filter(function(name)
      return vim.startswith(name, start)
    end, require('edn-bridge').names())
  end,
})
