#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""A language server that knows a few places, for the tests of the editor's tools.

It answers with the place that it is asked about, with one in another file of the folder, and with two outside.
"""

import json
import os
import sys

texts = {}


def send(message):
    body = json.dumps(dict(message, jsonrpc='2.0')).encode()
    sys.stdout.buffer.write(b'Content-Length: %d\r\n\r\n' % len(body) + body)
    sys.stdout.buffer.flush()


def at(line, character):
    return {'start': {'line': line, 'character': character}, 'end': {'line': line, 'character': character + 1}}


def answer(method, params):
    if method == 'initialize':
        return {'capabilities': {'textDocumentSync': 1, 'definitionProvider': True, 'referencesProvider': True}}
    if not method.startswith('textDocument/'):
        return None
    uri, place = params['textDocument']['uri'], params['position']
    here = at(place['line'], place['character'])
    if method == 'textDocument/definition':
        return {'uri': uri, 'range': here}
    folder = os.path.dirname(uri)
    if texts[uri].strip().startswith('(fail)'):
        raise ValueError('no: ' + texts[uri].split('\n')[1])
    return [
        {'uri': uri, 'range': here},
        {'targetUri': folder + '/b%20%C3%A4.el', 'targetRange': at(0, 0), 'targetSelectionRange': at(2, 4)},
        {'uri': folder + '/../outside.el', 'range': at(0, 0)},
        {'uri': 'jar:///x.el', 'range': at(0, 0)},
    ]


while True:
    length = 0
    while header := sys.stdin.buffer.readline().strip():
        name, value = header.split(b':')
        if name.lower() == b'content-length':
            length = int(value)
    if not length:
        break
    message = json.loads(sys.stdin.buffer.read(length))
    method, params = message.get('method', ''), message.get('params') or {}
    if method == 'textDocument/didOpen':
        texts[params['textDocument']['uri']] = params['textDocument']['text']
    if method == 'textDocument/didChange':
        texts[params['textDocument']['uri']] = params['contentChanges'][-1]['text']
    if method == 'exit':
        break
    if 'id' in message and method:
        try:
            send({'id': message['id'], 'result': answer(method, params)})
        except Exception as problem:
            send({'id': message['id'], 'error': {'code': -32000, 'message': str(problem)}})
