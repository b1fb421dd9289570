--- The codec against tables of texts, and against the program on every line of the golden transcripts.
local edn = require('edn-bridge.edn')

return function(test, support)
  local exact = { exact = true }

  test('transcripts_read_and_written_agree', function()
    local files = vim.fn.glob(support.root .. '/tests/transcripts/*.edn', true, true)
    assert(#files > 0, 'no transcripts')
    for _, file in ipairs(files) do
      local lines = {}
      -- Only the line end ends a line: a text may have other separators.
      for _, line in ipairs(vim.split(support.read(file), '\n', { plain = true })) do
        local mark = line:sub(1, 2)
        if mark == '> ' or mark == '< ' then
          lines[#lines + 1] = line
        end
      end
      local texts = vim.tbl_map(function(line)
        return line:sub(3)
      end, lines)
      local written, expected = {}, {}
      for place, canonical in ipairs(support.canonical(texts)) do
        local value, err = edn.decode(texts[place], exact)
        if canonical == false then
          assert(lines[place]:sub(1, 1) == '>' and err, 'not EDN, but read: ' .. texts[place])
        else
          assert(err == nil, texts[place] .. ': ' .. vim.inspect(err))
          written[#written + 1] = edn.encode(value)
          expected[#expected + 1] = canonical
        end
      end
      support.same(support.canonical(written), expected, file)
    end
  end)

  test('values_read_plain_are_lua', function()
    for text, value in pairs({
      ['[true false nil]'] = { true, false, vim.NIL },
      [' ; a comment\n[1,-2 +3 0]'] = { 1, -2, 3, 0 },
      ['[1.0 0.5 -1e-7 1E+300]'] = { 1, 0.5, -1e-7, 1e300 },
      [ [["a\t\n\r\\\"\u00e9\ud83d\ude00 é"]] ] = 'a\t\n\r\\"é😀 é',
      ['{:a/b 1 :c [:d] :e nil}'] = { ['a/b'] = 1, c = { 'd' } },
      ['(a b/c + ->x)'] = { 'a', 'b/c', '+', '->x' },
      ['#{1 2}'] = { 1, 2 },
      ['[1 #_ [2 #_3] 4 #_ #_ 5 6 7]'] = { 1, 4, 7 },
      ['{}'] = vim.empty_dict(),
      ['#_1 2 #_3'] = 2,
    }) do
      local found, err = edn.decode(text)
      support.same(found, value, text .. ' ' .. vim.inspect(err))
    end
    assert(edn.encode(edn.decode('{:a {} :b []}')) == '{:a {} :b []}')
  end)

  test('values_read_exactly_are_written_the_same', function()
    for _, text in ipairs({
      '{:a nil :b {} :c []}', '{"a b" 1 :a "x" :k :x}', '[sym/bol 1.0 9007199254740993 -0.5 0.1]', '#{1 2}', '(1 [2])',
      '{[:op/name "ping"] 1}', '"\\u0001\\t é"', '{1 :a 2 :b}',
    }) do
      local value, err = edn.decode(text, exact)
      assert(err == nil, vim.inspect(err))
      support.same(edn.encode(value), text)
    end
  end)

  test('text_that_is_no_form_is_refused_at_its_place', function()
    for text, offset in pairs({
      [''] = 0, ['1 2'] = 2, ['[1'] = 0, ['[1)'] = 2, ['{:a}'] = 0, ['"a'] = 0, ['"\\x"'] = 1, ['"\\ud83d"'] = 1,
      ['#inst "2020-01-01"'] = 0, ['1/2'] = 0, ['\\a'] = 0, ['08'] = 0, [':'] = 0, ['a/'] = 0, ['[#_]'] = 3,
      ['#_1'] = 3, [('['):rep(300)] = 256,
    }) do
      local value, err = edn.decode(text)
      assert(value == nil and err, text)
      support.same(err.offset, offset, text .. ': ' .. err.message)
    end
    local _, err = edn.decode('{:a 1 :a 2}', exact)
    assert(err, 'equal keys')
  end)

  test('value_without_form_is_refused', function()
    local endless = {}
    endless[1] = endless
    for _, value in ipairs({ 0 / 0, math.huge, print, endless, { ['a b'] = 1 }, edn.keyword('') }) do
      assert(not pcall(edn.encode, value), vim.inspect(value))
    end
    assert(edn.encode({ [edn.text('a b')] = 1 }) == '{"a b" 1}')
  end)
end
