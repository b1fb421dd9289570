--- Runs all tests in a Neovim without a screen:
---
---   EDN_BRIDGE_PROGRAM=/path/to/edn-bridge nvim --clean --headless -l clients/nvim/test/run.lua [PATTERN]
---
--- The bridge is the real program with a scripted model. Nothing sleeps: each test waits for what it expects.
local here = vim.fs.dirname(vim.fn.fnamemodify(arg[0], ':p'))
local plugin = vim.fs.dirname(here)
vim.opt.runtimepath:prepend(plugin)
package.path = here .. '/?.lua;' .. package.path

local support = require('support')
support.root = vim.fs.dirname(vim.fs.dirname(plugin))
support.plugin = plugin
support.program = vim.env.EDN_BRIDGE_PROGRAM or support.root .. '/target/debug/edn-bridge'

local failed, count = 0, 0
local function test(name, run)
  if arg[1] and not name:find(arg[1]) then
    return
  end
  count = count + 1
  local ok, err = xpcall(run, debug.traceback)
  local cleaned, why = pcall(support.clean_up)
  if not (ok and cleaned) then
    failed = failed + 1
    io.stdout:write(('FAILED %s\n%s\n'):format(name, ok and why or err))
  end
end

for _, name in ipairs({ 'edn_tests', 'rpc_tests', 'chat_tests' }) do
  require(name)(test, support)
end
io.stdout:write(('Ran %d tests, %d failed\n'):format(count, failed))
os.exit(failed == 0 and count > 0 and 0 or 1)
