--- Questions of the agent: each in a buffer of its own, beside the chat, with the change as a diff. Nothing waits for
--- an answer, and nothing takes the focus: the person goes there and presses a key.
local transcript = require('edn-bridge.transcript')

local M = {}

--- The keys of each kind: what they say, and the value of the answer. `ask` and `note` ask for a text first, `options`
--- for one of them.
local approve = {
  { 'y', 'allow once', { outcome = 'approve', scope = 'once' } },
  { 's', 'allow for this session', { outcome = 'approve', scope = 'session' } },
  { 'a', 'always allow, by the rule', { outcome = 'approve', scope = 'rule' }, rule = true },
  { 'n', 'reject', { outcome = 'deny', scope = 'once' }, note = 'Reason for the model: ' },
}
local grant = { { 'y', 'allow', { outcome = 'approve' } }, { 'n', 'reject', { outcome = 'deny' } } }
local KEYS = {
  approve = approve,
  ['grant-stage-tool'] = grant,
  ['approve-subagent-envelope'] = grant,
  confirm = { { 'y', 'yes', { ok = true } }, { 'n', 'no', { ok = false } } },
  ['auth.device-code'] = { { 'y', 'done', { done = true } } },
  ask = { { 'y', 'answer', 'text', ask = 'Answer: ' } },
  ['auth.password'] = { { 'y', 'answer', 'secret', ask = 'Secret: ', secret = true } },
}

--- What is asked, as lines. All of it is the model's or a program's text, so none of it goes where Neovim would
--- evaluate it (the window bar) or take it for a setting (modelines are off).
function M.lines(kind, payload, data)
  local lines = {}
  local function add(text)
    vim.list_extend(lines, vim.split(text, '\n', { plain = true }))
  end
  if data['subagent-label'] then
    add('Subagent: ' .. data['subagent-label'])
  end
  add(payload['call-summary'] or payload.prompt or payload['prompt-summary'] or payload.url or kind)
  if payload.code then
    add('Code: ' .. payload.code)
  end
  for _, warning in ipairs(payload.warnings or {}) do
    add('Warning: ' .. tostring(warning))
  end
  if payload.command then
    add('')
    add('$ ' .. payload.command)
  end
  if payload['suggested-rule'] then
    local rule = payload['suggested-rule']
    local what = rule.path or rule.command or ''
    add(('Rule: %s %s %s'):format(rule.decision or '', rule.tool or '', type(what) == 'string' and what or ''))
  end
  for place, option in ipairs(payload.options or {}) do
    add(('%d  %s  %s'):format(place, option.label, option.description or ''))
  end
  if payload.diff then
    add('')
    add((payload.diff:gsub('\n$', '')))
  end
  return lines
end

--- Settings of a question's window. Whoever answers must see all of the text: nothing concealed, folded or cut.
function M.dress(window, hints)
  local set = vim.wo[window][0]
  set.winbar = table.concat(hints, '   ')
  set.conceallevel, set.foldenable, set.wrap = 0, false, true
end

--- The answer that is the option at a place, from 1.
local function choice(payload, place)
  return payload.multi and { indices = { place - 1 } } or { index = place - 1 }
end

local function keys_of(kind, payload)
  if kind ~= 'select' then
    return vim.tbl_filter(function(key)
      return not key.rule or payload['suggested-rule'] ~= nil
    end, KEYS[kind] or {})
  end
  local options = payload.options or {}
  -- A number of two digits is no key, and its first digit must not answer.
  if #options > 9 then
    return { { 'y', 'choose', options = options } }
  end
  local keys = {}
  for place in ipairs(options) do
    keys[place] = { tostring(place), '', choice(payload, place) }
  end
  return keys
end

--- Shows a question. `respond(params)` sends its answer. Returns the buffer.
---@param data table the payload of `interaction/requested`
---@param beside integer the window that gets a split for it, or 0
function M.show(data, beside, respond)
  local kind, payload, id = data.kind, data.payload, data['interaction-id']
  local buffer = transcript.scratch('edn-bridge://question/' .. id, payload.diff and 'diff' or 'text')
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, M.lines(kind, payload, data))
  vim.bo[buffer].modifiable = false
  local hints = {}
  local function on(key, hint, run)
    if hint ~= '' then
      hints[#hints + 1] = key .. ' ' .. hint
    end
    vim.keymap.set('n', key, run, { buffer = buffer, nowait = true, desc = hint })
  end
  local function accept(value, note)
    respond({ ['interaction-id'] = id, status = 'accepted', value = value, note = note ~= '' and note or nil })
  end
  for _, key in ipairs(keys_of(kind, payload)) do
    on(key[1], key[2], function()
      if key.secret then
        -- Only the core's own function hides what is typed. The person asked for it, by a key.
        local secret = vim.fn.inputsecret(key.ask)
        return secret ~= '' and accept({ [key[3]] = secret })
      elseif key.options then
        return vim.ui.select(key.options, {
          prompt = payload.prompt,
          format_item = function(option)
            return option.label
          end,
        }, function(_, place)
          if place then
            accept(choice(payload, place))
          end
        end)
      elseif key.ask or key.note then
        return vim.ui.input({ prompt = key.ask or key.note }, function(text)
          if text then
            accept(key.ask and { [key[3]] = text } or key[3], key.note and text)
          end
        end)
      end
      local value = vim.deepcopy(key[3])
      value.rule = key.rule and payload['suggested-rule'] or nil
      accept(value)
    end)
  end
  if kind == 'select' and #(payload.options or {}) < 10 then
    table.insert(hints, 1, '1-9 choose')
  end
  on('q', 'give no answer', function()
    respond({ ['interaction-id'] = id, status = 'cancelled' })
  end)
  -- Where no window can be opened (in the command-line window), the buffer waits for whoever goes to it.
  local opened, window = pcall(vim.api.nvim_open_win, buffer, false, { split = 'above', win = beside })
  if opened then
    M.dress(window, hints)
  end
  vim.api.nvim_create_autocmd('BufWinEnter', {
    buffer = buffer,
    callback = function()
      M.dress(vim.api.nvim_get_current_win(), hints)
    end,
  })
  return buffer
end

return M
