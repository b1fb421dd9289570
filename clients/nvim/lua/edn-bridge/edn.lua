--- EDN of the wire: no tags, no ratios, no characters. Knows no connection. Safe in callbacks of the event loop.
---
--- Lua has fewer kinds of values than EDN, so there are two ways to read:
---
---   plain (the default)   a keyword or symbol becomes a string; a list or set becomes a list; nil as a map's value is
---                         left out, and elsewhere it is vim.NIL. For code that looks at data.
---   exact                 keywords and symbols are objects (`M.keyword`, `M.symbol`), lists, sets and maps have a
---                         metatable, nil is vim.NIL, and a number that Lua would write otherwise (`1.0`, or above
---                         2^53) is `M.number`. What is read so is written the same.
---
--- In both, the key of a map is a Lua string if it is a keyword. In exact, a key that is a string is `M.text`.
local M = {}

--- The deepest nesting of one form.
M.MAX_DEPTH = 256

local function kind(name)
  local mt = { kind = name }
  mt.__index = mt
  mt.__tostring = function(object)
    return object.name
  end
  return mt
end

local Keyword, Symbol, Text, Number = kind('keyword'), kind('symbol'), kind('text'), kind('number')
local List, Set, Map = { kind = 'list' }, { kind = 'set' }, { kind = 'map' }

--- Makes the constructor of a kind whose equal values are the same object, so that `==` and keys of tables work.
local function interned(mt)
  local known = setmetatable({}, { __mode = 'v' })
  return function(name)
    local object = known[name]
    if not object then
      object = setmetatable({ name = name }, mt)
      known[name] = object
    end
    return object
  end
end

--- A keyword by its name, without the colon.
M.keyword = interned(Keyword)
--- A symbol by its name.
M.symbol = interned(Symbol)
--- A string as the key of a map; a plain Lua string there is a keyword.
M.text = interned(Text)

--- A number as it is spelled in EDN, for numbers that Lua has no value or no spelling for.
function M.number(spelling)
  return setmetatable({ name = spelling }, Number)
end

--- A set, a list or a map of the given table. The metatable also tells an empty map from an empty vector.
function M.set(items)
  return setmetatable(items, Set)
end
function M.list(items)
  return setmetatable(items, List)
end
function M.map(entries)
  return setmetatable(entries, Map)
end

-- Reading

local BLANK, WORD = '^[%s,]*', '^[^%s,()%[%]{}";]+'
local NAME_START, NAME_REST = "[%a.*!_?$%%&=<>|'\128-\255]", "[%w.*!_?$%%&=<>|'#:+\128-\255-]*"
local ESCAPED = { t = '\t', r = '\r', n = '\n', b = '\b', f = '\f', ['\\'] = '\\', ['"'] = '"' }
local CLOSES = { ['['] = ']', ['('] = ')', ['{'] = '}', ['#{'] = '}' }

local function fail(message, position)
  error({ edn = true, message = message, offset = position - 1 }, 0)
end

--- Whether a text can be one part of a name, before or behind the stroke.
local function is_part(part)
  if part:find('^' .. NAME_START .. NAME_REST .. '$') then
    return true
  end
  -- A sign does not begin a name if a digit follows: that is a number.
  return part:find('^[+-]' .. NAME_REST .. '$') ~= nil and not part:find('^[+-]%d')
end

local function is_name(name)
  local before, behind = name:match('^([^/]+)/(.+)$')
  if before then
    return is_part(before) and is_part(behind)
  end
  return name == '/' or is_part(name)
end

local function is_keyword(name)
  -- Unlike a symbol, a keyword may begin with a digit.
  local before, behind = name:match('^([^/]+)/([^/]+)$')
  local function fits(part)
    return is_part(part) or part:find('^%d' .. NAME_REST .. '$') ~= nil
  end
  if before then
    return fits(before) and fits(behind)
  end
  return fits(name)
end

--- A character as UTF-8.
local function utf8(code)
  local char = string.char
  local function tail(shift)
    return 128 + math.floor(code / shift) % 64
  end
  if code < 0x80 then
    return char(code)
  elseif code < 0x800 then
    return char(192 + math.floor(code / 64), tail(1))
  elseif code < 0x10000 then
    return char(224 + math.floor(code / 4096), tail(64), tail(1))
  end
  return char(240 + math.floor(code / 262144), tail(4096), tail(64), tail(1))
end

--- Reads the string whose opening quote is before `position`; returns it and the position behind it.
local function read_string(text, position)
  local begun, parts = position - 1, nil
  while true do
    local at = text:find('["\\]', position)
    if not at then
      fail('a string does not end', begun)
    end
    local plain = text:sub(position, at - 1)
    if text:byte(at) == 34 then
      if not parts then
        return plain, at + 1
      end
      parts[#parts + 1] = plain
      return table.concat(parts), at + 1
    end
    parts = parts or {}
    parts[#parts + 1] = plain
    local escape = text:sub(at + 1, at + 1)
    if escape == 'u' then
      local hex = text:match('^%x%x%x%x', at + 2)
      local code = hex and tonumber(hex, 16)
      position = at + 6
      if code and code >= 0xD800 and code < 0xDC00 then
        local low = tonumber(text:match('^\\u(%x%x%x%x)', position) or '0', 16)
        if low < 0xDC00 or low > 0xDFFF then
          fail('half of a surrogate pair', at)
        end
        code, position = 0x10000 + (code - 0xD800) * 1024 + low - 0xDC00, position + 6
      elseif not code or (code >= 0xDC00 and code <= 0xDFFF) then
        fail(code and 'half of a surrogate pair' or 'an escape needs four hexadecimal digits', at)
      end
      parts[#parts + 1] = utf8(code)
    else
      parts[#parts + 1] = ESCAPED[escape] or fail('no such escape: \\' .. escape, at)
      position = at + 2
    end
  end
end

local function read_number(word, exact)
  local digits = word:match('^[+-]?(%d+)N?$')
  if digits then
    if #digits > 1 and digits:byte() == 48 then
      return nil
    end
    local value = tonumber((word:gsub('^%+', ''):gsub('N$', '')))
    if value >= 2 ^ 53 or value <= -2 ^ 53 then
      return M.number((word:gsub('^%+', ''):gsub('N$', '')))
    end
    return value == 0 and 0 or value
  end
  if not (word:find('^[+-]?%d+%.%d*$') or word:find('^[+-]?%d+%.?%d*[eE][+-]?%d+$')) then
    return nil
  end
  local value = tonumber((word:gsub('^%+', '')))
  if exact and value == math.floor(value) then
    return M.number((word:gsub('^%+', '')))
  end
  return value
end

local function read_word(word, position, exact)
  if word == 'true' then
    return true
  elseif word == 'false' then
    return false
  elseif word == 'nil' then
    return vim.NIL
  end
  local name = word:match('^:(.+)$')
  if name and is_keyword(name) then
    return exact and M.keyword(name) or name
  end
  local number = read_number(word, exact)
  if number ~= nil then
    return number
  elseif is_name(word) then
    return exact and M.symbol(word) or word
  end
  fail('no word of the wire: ' .. word:sub(1, 40), position)
end

--- Skips blanks and comments.
local function skip(text, position)
  while true do
    local _, last = text:find(BLANK, position)
    position = last + 1
    if text:byte(position) ~= 59 then
      return position
    end
    position = (text:find('\n', position, true) or #text) + 1
  end
end

local read_form

--- Reads forms up to the bracket that closes `bracket`; returns them, their number and the position behind.
local function read_items(text, position, bracket, depth, exact)
  local begun, closing, items, count = position - #bracket, CLOSES[bracket], {}, 0
  if depth > M.MAX_DEPTH then
    fail('more than ' .. M.MAX_DEPTH .. ' levels of nesting', begun)
  end
  while true do
    position = skip(text, position)
    local char = text:sub(position, position)
    if char == '' then
      fail(bracket .. ' is not closed', begun)
    elseif char == closing then
      return items, count, position + 1
    elseif char == '#' and text:sub(position + 1, position + 1) == '_' then
      local _
      _, position = read_form(text, position + 2, depth, exact)
    else
      count = count + 1
      items[count], position = read_form(text, position, depth, exact)
    end
  end
end

local function read_map(text, position, depth, exact)
  local begun, map = position - 1, {}
  local items, count, behind = read_items(text, position, '{', depth, exact)
  if count % 2 == 1 then
    fail('a map has a key without a value', begun)
  end
  for place = 1, count, 2 do
    local key, value = items[place], items[place + 1]
    if exact then
      if type(key) == 'string' then
        key = M.text(key)
      elseif getmetatable(key) == Keyword then
        key = key.name
      end
      if map[key] ~= nil then
        fail('two keys of a map are equal', begun)
      end
    end
    if exact or value ~= vim.NIL then
      map[key] = value
    end
  end
  if exact then
    return setmetatable(map, Map), behind
  end
  -- So that it does not become a vector when it is written.
  return next(map) == nil and vim.empty_dict() or map, behind
end

read_form = function(text, position, depth, exact)
  position = skip(text, position)
  local char = text:sub(position, position)
  if char == '"' then
    return read_string(text, position + 1)
  elseif char == '{' then
    return read_map(text, position + 1, depth + 1, exact)
  elseif char == '[' then
    local items, _, behind = read_items(text, position + 1, '[', depth + 1, exact)
    return items, behind
  elseif char == '(' then
    local items, _, behind = read_items(text, position + 1, '(', depth + 1, exact)
    return exact and M.list(items) or items, behind
  elseif char == '#' and text:sub(position + 1, position + 1) == '{' then
    local items, _, behind = read_items(text, position + 2, '#{', depth + 1, exact)
    return exact and M.set(items) or items, behind
  elseif char == '#' and text:sub(position + 1, position + 1) == '_' then
    local _, behind = read_form(text, position + 2, depth, exact)
    return read_form(text, behind, depth, exact)
  elseif char == '' then
    fail('the text ends where a form is expected', position)
  end
  local word = text:match(WORD, position)
  if not word then
    fail(char .. ' closes nothing', position)
  end
  return read_word(word, position, exact), position + #word
end

--- Reads a text that is one form. Returns the value, or nil and {message, offset} with the offset in bytes.
---@param text string
---@param options? {exact: boolean}
function M.decode(text, options)
  local ok, value = pcall(function()
    local form, position = read_form(text, 1, 0, options ~= nil and options.exact == true)
    position = skip(text, position)
    while text:sub(position, position + 1) == '#_' do
      local _
      _, position = read_form(text, position + 2, 0, true)
      position = skip(text, position)
    end
    if position <= #text then
      fail('the text is not one form', position)
    end
    return form
  end)
  if ok then
    return value
  elseif type(value) == 'table' and value.edn then
    return nil, { message = value.message, offset = value.offset }
  end
  return nil, { message = tostring(value), offset = 0 }
end

-- Writing

local SPELLED = { ['"'] = '\\"', ['\\'] = '\\\\', ['\n'] = '\\n', ['\r'] = '\\r', ['\t'] = '\\t' }

local function quoted(text)
  return '"' .. text:gsub('[%c"\\]', function(char)
    -- 127 is a control character for Lua, but not for the wire.
    return SPELLED[char] or (char:byte() < 32 and ('\\u%04x'):format(char:byte())) or char
  end) .. '"'
end

local function spelled(number)
  if number ~= number or number == math.huge or number == -math.huge then
    error('the wire has no ' .. tostring(number), 0)
  elseif number == math.floor(number) and math.abs(number) < 2 ^ 53 then
    return ('%.0f'):format(number)
  end
  -- The shortest that reads back as the same number.
  for digits = 15, 17 do
    local text = ('%.' .. digits .. 'g'):format(number)
    if tonumber(text) == number then
      return text:find('[.e]') and text or text .. '.0'
    end
  end
end

local function keyword_text(name)
  if not is_keyword(name) then
    error(('%q is no name of a keyword; for a string as a key, use edn.text'):format(name:sub(1, 40)), 0)
  end
  return ':' .. name
end

local function write(value, depth)
  if depth > M.MAX_DEPTH then
    error('more than ' .. M.MAX_DEPTH .. ' levels of nesting', 0)
  end
  local mt = getmetatable(value)
  if value == nil or value == vim.NIL then
    return 'nil'
  elseif type(value) == 'boolean' then
    return tostring(value)
  elseif type(value) == 'number' then
    return spelled(value)
  elseif type(value) == 'string' then
    return quoted(value)
  elseif mt == Keyword then
    return keyword_text(value.name)
  elseif mt == Text then
    return quoted(value.name)
  elseif mt == Symbol or mt == Number then
    return value.name
  elseif type(value) ~= 'table' then
    error('a ' .. type(value) .. ' has no form in EDN', 0)
  end
  local parts = {}
  if mt ~= Map and vim.islist(value) and not (next(value) == nil and mt == vim._empty_dict_mt) then
    for place, item in ipairs(value) do
      parts[place] = write(item, depth + 1)
    end
    local inside = table.concat(parts, ' ')
    return mt == Set and '#{' .. inside .. '}' or mt == List and '(' .. inside .. ')' or '[' .. inside .. ']'
  end
  for key, item in pairs(value) do
    local name = type(key) == 'string' and keyword_text(key) or write(key, depth + 1)
    parts[#parts + 1] = name .. ' ' .. write(item, depth + 1)
  end
  -- A table has no order; a fixed one makes logs and tests readable.
  table.sort(parts)
  return '{' .. table.concat(parts, ' ') .. '}'
end

--- Writes a value on one line. A Lua string is a string; as the key of a table it is a keyword. An empty table is a
--- vector, `vim.empty_dict()` a map. Raises an error for what has no form.
function M.encode(value)
  return write(value, 0)
end

return M
