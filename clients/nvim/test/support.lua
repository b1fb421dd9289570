--- What the tests share: folders, scripts of the model, waits with a deadline, cleaning up.
local M = {}

--- The deadline of every wait, in ms. Generous, because a loaded machine is slow, not wrong.
M.PATIENCE = 60000

local cleaning = {}

--- Runs a function after the test, the last one first.
function M.after(run)
  table.insert(cleaning, 1, run)
end

function M.clean_up()
  local runs = cleaning
  cleaning = {}
  for _, run in ipairs(runs) do
    run()
  end
end

function M.read(path)
  local file = assert(io.open(path, 'rb'))
  local text = file:read('*a')
  file:close()
  return text
end

function M.write(path, text)
  local file = assert(io.open(path, 'wb'))
  file:write(text)
  file:close()
end

function M.same(found, expected, what)
  if not vim.deep_equal(found, expected) then
    error(('%s\nfound    %s\nexpected %s'):format(what or '', vim.inspect(found), vim.inspect(expected)), 2)
  end
end

--- Waits until `is_so` returns something, which is returned.
function M.wait(what, is_so)
  local found
  if not vim.wait(M.PATIENCE, function()
    found = is_so()
    return found
  end, 2) then
    error('waited in vain: ' .. what .. (M.told and '\n' .. M.told() or ''), 2)
  end
  return found
end

--- The canonical form of each text by the program, or false if the text is not one form.
function M.canonical(texts)
  -- A mark behind each text tells apart an empty text and one of two forms.
  local run = vim.system({ M.program, 'edn' }, { stdin = table.concat(texts, '\n:mark\n') .. '\n:mark\n' }):wait()
  local lines = vim.split(run.stdout, '\n', { plain = true, trimempty = true })
  local forms, marked = {}, run.code == 0 and #lines == 2 * #texts
  for place = 1, #texts do
    forms[place] = lines[2 * place - 1]
    marked = marked and lines[2 * place] == ':mark'
  end
  if marked then
    return forms
  elseif #texts == 1 then
    return { false }
  end
  local half = math.floor(#texts / 2)
  return vim.list_extend(M.canonical(vim.list_slice(texts, 1, half)), M.canonical(vim.list_slice(texts, half + 1)))
end

--- A project with a script of the model. Returns its folder, and the command and variables of its bridge.
function M.project(script)
  local folder = assert(vim.uv.fs_mkdtemp(vim.uv.os_tmpdir() .. '/edn-bridge-nvim-XXXXXX'))
  folder = vim.uv.fs_realpath(folder)
  M.after(function()
    vim.fn.delete(folder, 'rf')
  end)
  vim.fn.mkdir(folder .. '/project')
  M.write(folder .. '/script.edn', script)
  return {
    cwd = folder .. '/project',
    cmd = {
      M.program, 'serve', '--no-daemon', '--provider', 'scripted', '--script', folder .. '/script.edn',
      '--state-dir', folder .. '/state',
    },
    env = { XDG_CONFIG_HOME = folder .. '/config' },
  }
end

return M
