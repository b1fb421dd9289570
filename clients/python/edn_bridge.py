"""A client of edn-bridge for scripts: one file, the standard library only, Python 3.9 or later.

    import edn_bridge

    with edn_bridge.start(cwd="/my/project") as bridge:
        print(bridge.prompt("What does this project do?").text)

`start` runs `edn-bridge serve`; `attach` connects to a bridge that runs. Both return a `Bridge` after the handshake.
One thread reads the connection. Any thread may make requests. The callback for questions has a thread of its own, so
it may make requests too.

Sections: EDN, errors, events and answers, the connection, where a running bridge is found.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import itertools
import logging
import os
import queue
import re
import socket
import subprocess
import threading
import time
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, Sequence

__all__ = [
    "Answer", "Bridge", "BridgeClosed", "BridgeError", "BridgeTimeout", "EdnError", "Event", "EventStream", "Keyword",
    "Question", "Set", "Symbol", "TurnEnded", "WireError", "attach", "dumps", "keys", "loads", "start",
]

PROTOCOL_VERSION = "1.0"
#: The longest line, in bytes, that the bridge reads.
MAX_LINE = 16 * 1024 * 1024
#: The longest line that this client reads. More than the bridge sends; a bound all the same.
MAX_RECEIVED = 64 * 1024 * 1024
#: The deepest nesting of one form.
MAX_DEPTH = 256
#: How many events a stream keeps for a reader that is behind. Older ones are dropped and counted (`Event.missed`).
MAX_EVENTS = 10_000
#: How many questions wait for the callback.
MAX_QUESTIONS = 1_000
#: The seconds that a request waits for its answer, unless it says otherwise.
REQUEST_TIMEOUT = 60.0
#: The seconds that `Bridge.close` waits for the process before it ends it.
CLOSE_TIMEOUT = 10.0

_log = logging.getLogger("edn_bridge")


# EDN: what the wire sends, which is EDN without tags, ratios and characters.


class Keyword(str):
    """An EDN keyword, without its colon. Equal to the string of its name, so `data["session-id"]` finds its value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return ":" + self


class Symbol(str):
    """An EDN symbol. Equal to the string of its name."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Set(tuple):
    """An EDN set, in the order in which it was written. A tuple, because its elements may be maps."""

    __slots__ = ()


class EdnError(ValueError):
    """A text is not EDN of the wire, or a value cannot be written as such. `offset` counts characters of the text."""

    def __init__(self, message: str, offset: Optional[int] = None):
        super().__init__(message if offset is None else f"{message} (character {offset})")
        self.offset = offset


_TOKEN = re.compile(
    r"""(?:[\s,]|;[^\n]*)*(?:
        (?P<string>"[^"\\]*(?:\\.[^"\\]*)*")
      | (?P<open>\(|\[|\{|\#\{)
      | (?P<close>[)\]}])
      | (?P<discard>\#_)
      | (?P<word>[^\s,()\[\]{}";]+)
      | (?P<end>\Z))""",
    re.VERBOSE | re.DOTALL,
)
_PART = r"(?:[A-Za-z.*!_?$%&=<>|'\u0080-\U0010ffff]|[-+](?![0-9]))[-+\w.*!?$%&=<>|'#:]*"
_NAME = re.compile(rf"(?:{_PART}/)?{_PART}|/")
_KEYWORD = re.compile(rf":(?:[\w.*!?$%&=<>|'+-][-+\w.*!?$%&=<>|'#:]*/)?[\w.*!?$%&=<>|'+-][-+\w.*!?$%&=<>|'#:]*")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)N?")
_FLOAT = re.compile(r"[-+]?[0-9]+(?:\.[0-9]*(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)")
_CLOSES = {"(": ")", "[": "]", "{": "}", "#{": "}"}
_CONSTANTS = {"nil": None, "true": True, "false": False}
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_ESCAPED = {"t": "\t", "r": "\r", "n": "\n", "b": "\b", "f": "\f", "\\": "\\", '"': '"'}
_SPECIAL = re.compile(r'["\\\x00-\x1f]')
_SPELLED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def loads(text: str) -> Any:
    """Reads one form.

    nil, true and false become None, True and False; a vector a list, a list a tuple, a set a `Set`, a map a dict in its
    order. A vector or list that is the key of a map becomes a tuple. Raises `EdnError`.
    """
    # A loop with a stack, not a recursion: the depth of a text costs no stack of Python.
    opened: list[tuple[str, list, int]] = []
    items: list[Any] = []
    position = 0
    while True:
        found = _TOKEN.match(text, position)
        if found is None:
            raise EdnError("a string does not end", position)
        kind, token, start = found.lastgroup, found[found.lastgroup], found.start(found.lastgroup)
        position = found.end()
        if kind == "open":
            if len(opened) == MAX_DEPTH:
                raise EdnError(f"more than {MAX_DEPTH} levels of nesting", start)
            opened.append((token, items, start))
            items = []
            continue
        if kind == "discard":
            items.append(_DISCARD)
            continue
        if kind == "end":
            if opened:
                raise EdnError(f"{opened[-1][0]} is not closed", opened[-1][2])
            if len(items) != 1 or items[0] is _DISCARD:
                raise EdnError("the text is not one form", start)
            return items[0]
        if kind == "close":
            if not opened or _CLOSES[opened[-1][0]] != token:
                raise EdnError(f"{token} closes nothing", start)
            if items and items[-1] is _DISCARD:
                raise EdnError("#_ has no form to discard", start)
            bracket, outer, begun = opened.pop()
            value = _collection(bracket, items, begun)
            items = outer
        else:
            value = _string(token, start) if kind == "string" else _word(token, start)
        if items and items[-1] is _DISCARD:
            items.pop()
        else:
            items.append(value)


_DISCARD = object()


def _collection(bracket: str, items: list, offset: int) -> Any:
    if bracket == "[":
        return items
    if bracket == "(":
        return tuple(items)
    if bracket == "#{":
        return Set(items)
    if len(items) % 2:
        raise EdnError("a map has a key without a value", offset)
    names = [tuple(key) if isinstance(key, list) else key for key in items[::2]]
    try:
        value = dict(zip(names, items[1::2]))
    except TypeError:
        raise EdnError("a map has a map as its key, which a dict cannot have", offset) from None
    if len(value) < len(names):
        raise EdnError("two keys of a map are equal", offset)
    return value


def _string(token: str, offset: int) -> str:
    if "\\" not in token:
        return token[1:-1]

    def escaped(found: re.Match) -> str:
        if found[1]:
            return chr(int(found[1], 16))
        if found[2] in _ESCAPED:
            return _ESCAPED[found[2]]
        raise EdnError(f"\\{found[2]} is no escape", offset + 1 + found.start())

    text = _ESCAPE.sub(escaped, token[1:-1])
    try:
        # A pair of surrogates is one character; a lone one is none.
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise EdnError("half of a surrogate pair", offset) from None


def _word(token: str, offset: int) -> Any:
    if token in _CONSTANTS:
        return _CONSTANTS[token]
    if _KEYWORD.fullmatch(token):
        return Keyword(token[1:])
    if _INTEGER.fullmatch(token):
        return int(token.rstrip("N"))
    if _FLOAT.fullmatch(token):
        return float(token)
    if _NAME.fullmatch(token):
        return Symbol(token)
    raise EdnError(f"{token[:40]} is no word of the wire", offset)


def dumps(value: Any) -> str:
    """Writes a value on one line. A str becomes a string; see `keys` for maps with keywords. Raises `EdnError`."""
    parts: list[str] = []
    _write(value, parts, 0)
    return "".join(parts)


def _write(value: Any, parts: list[str], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise EdnError(f"more than {MAX_DEPTH} levels of nesting")
    if value is None:
        parts.append("nil")
    elif value is True or value is False:
        parts.append("true" if value else "false")
    elif isinstance(value, Keyword):
        if not _KEYWORD.fullmatch(":" + value):
            raise EdnError(f"{str(value)[:40]!r} is no name of a keyword")
        parts.append(":" + value)
    elif isinstance(value, Symbol):
        if not _NAME.fullmatch(value) or value in _CONSTANTS:
            raise EdnError(f"{str(value)[:40]!r} is no symbol")
        parts.append(value)
    elif isinstance(value, str):
        if any("\ud800" <= c <= "\udfff" for c in value):
            raise EdnError("a string has half of a surrogate pair")
        parts.append('"' + _SPECIAL.sub(lambda c: _SPELLED.get(c[0]) or f"\\u{ord(c[0]):04x}", value) + '"')
    elif isinstance(value, int):
        parts.append(str(value))
    elif isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise EdnError(f"the wire has no {value}")
        parts.append(repr(value))
    elif isinstance(value, Mapping):
        parts.append("{")
        for place, (key, item) in enumerate(value.items()):
            if place:
                parts.append(" ")
            _write(key, parts, depth + 1)
            parts.append(" ")
            _write(item, parts, depth + 1)
        parts.append("}")
    elif isinstance(value, (list, tuple, set, frozenset)):
        begin, end = ("[", "]") if isinstance(value, list) else ("(", ")")
        if isinstance(value, (Set, set, frozenset)):
            begin, end = "#{", "}"
        parts.append(begin)
        for place, item in enumerate(value):
            if place:
                parts.append(" ")
            _write(item, parts, depth + 1)
        parts.append(end)
    else:
        raise EdnError(f"a {type(value).__name__} has no form in EDN")


def keys(value: Any) -> Any:
    """The same value with keywords in place of every string that is a key of a map, at any depth.

    `keys({"outcome": "approve"})` is `{:outcome "approve"}`; without it the key would be a string.
    """
    if isinstance(value, Mapping):
        return {Keyword(key) if type(key) is str else key: keys(item) for key, item in value.items()}
    if isinstance(value, list):
        return [keys(item) for item in value]
    return value


# Errors. Each error code of the wire has a class of its own, so that a script catches what it can handle.


class BridgeError(Exception):
    """Anything that goes wrong between a script and the bridge."""


class BridgeClosed(BridgeError):
    """The connection has ended: the process ended, or hung up."""


class BridgeTimeout(BridgeError, TimeoutError):
    """What was waited for did not come in time. A request or turn that was begun goes on."""


class TurnEnded(BridgeError):
    """A turn failed, or was aborted or interrupted. `answer` has what there is of its answer."""

    def __init__(self, answer: Answer):
        super().__init__(f"the turn {answer.outcome}" + (f": {answer.error}" if answer.error else ""))
        self.answer = answer


class WireError(BridgeError):
    """The bridge answered with an error.

    `code` is the code of the wire, `op` the request's op, `data` further facts, `retryable` whether the same request
    may succeed later. A code that this client does not know is a plain `WireError`.
    """

    code = ""
    _classes: dict[str, type[WireError]] = {}

    def __init_subclass__(cls) -> None:
        WireError._classes[cls.code] = cls

    def __init__(self, frame: Mapping[str, Any]):
        self.code = frame.get("error-code", "")
        self.op: Optional[str] = frame.get("op")
        self.data: Mapping[str, Any] = frame.get("data") or {}
        self.retryable = frame.get("retryable") is True
        super().__init__(f"{self.op or 'a line'}: {frame.get('error-message')} ({self.code})")

    @staticmethod
    def of(frame: Mapping[str, Any]) -> WireError:
        """The error of a frame, in the class of its code."""
        return WireError._classes.get(frame.get("error-code", ""), WireError)(frame)


class NotReady(WireError):
    """The op requires a handshake."""

    code = "transport/not-ready"


class InvalidFrame(WireError):
    """The line is not a single EDN form within the bounds. `data` has `reason` and `offset`."""

    code = "transport/invalid-frame"


class MaxPendingExceeded(WireError):
    """Too many requests wait for their answers. Wait for some."""

    code = "transport/max-pending-exceeded"


class UnsupportedVersion(WireError):
    """The bridge speaks another version of the protocol. `data` has `supported-versions`."""

    code = "protocol/unsupported-version"


class InvalidEnvelope(WireError):
    """The form is not a request."""

    code = "protocol/invalid-envelope"


class InvalidId(WireError):
    """The request's id is empty, not a string, or pending already."""

    code = "request/invalid-id"


class InvalidOp(WireError):
    """The op is empty or not a string."""

    code = "request/invalid-op"


class InvalidParams(WireError):
    """A param is missing or has the wrong shape. `data` has its `key` and what was `expected`."""

    code = "request/invalid-params"


class NotAllowed(WireError):
    """The user's policy does not allow it. Only in the acknowledgement of a control request."""

    code = "request/not-allowed"


class InvalidQuery(WireError):
    """The query is not valid EQL. `data` has the `offset`."""

    code = "request/invalid-query"


class OpNotSupported(WireError):
    """The bridge has no such op. `data` has its `supported-ops`."""

    code = "request/op-not-supported"


class SessionNotIdle(WireError):
    """A turn runs. Wait for its end, or use `steer` or `follow_up`."""

    code = "request/session-not-idle"


class NotFound(WireError):
    """There is no such session, entry, job or output."""

    code = "request/not-found"


class IdempotencyConflict(WireError):
    """The idempotency key was used for another request; nothing was done."""

    code = "request/idempotency-conflict"


class LedgerFull(WireError):
    """The session knows as many idempotency keys of the last minutes as it can. Try again later."""

    code = "request/ledger-full"


class MessageFixed(WireError):
    """The waiting message came through control and cannot be changed."""

    code = "request/message-fixed"


class NothingToRetry(WireError):
    """The last message has its answer, or there is none."""

    code = "request/nothing-to-retry"


class FileChanged(WireError):
    """Files are not as the turn left them. `data` has `changed` and `others`."""

    code = "request/file-changed"


class UnknownModel(WireError):
    """The catalogue has no such model. `data` may have the `nearest`."""

    code = "request/unknown-model"


class UnknownCommand(WireError):
    """There is no such slash command. `data` has the `nearest`."""

    code = "request/unknown-command"


class NoPendingLogin(WireError):
    """No login is pending on this connection."""

    code = "request/no-pending-login"


class NoActiveDialog(WireError):
    """No dialog is open on this connection."""

    code = "request/no-active-dialog"


class DialogIdMismatch(WireError):
    """Another dialog is open."""

    code = "request/dialog-id-mismatch"


class InteractionAlreadyAnswered(WireError):
    """Somebody else answered the question first, or it was withdrawn."""

    code = "request/interaction-already-answered"


class RealmOwned(WireError):
    """A living host of the realm owns the session."""

    code = "realm/owned"


class RealmOwnerLost(WireError):
    """The host that owns the session is lost. Take the session, or try again once it is back."""

    code = "realm/owner-lost"


class RealmUnreachable(WireError):
    """The realm cannot be reached. Try again; the sessions of this machine are not affected."""

    code = "realm/unreachable"


class RealmInDoubt(WireError):
    """The realm did not answer in time: whether it was done is not known. With the same key it is done once."""

    code = "realm/in-doubt"


class QueryFailed(WireError):
    """A strict query names an attribute that cannot be resolved. `data` may have `missing` and `errors`."""

    code = "runtime/query-failed"


class RuntimeFailed(WireError):
    """The runtime failed; the message gives the reason."""

    code = "runtime/failed"


# Events and answers.


@dataclasses.dataclass(frozen=True)
class Event:
    """One event of the bridge."""

    topic: str
    #: The payload of the topic, as spec/reference.md lists it.
    data: dict
    #: The number on this connection: 1, 2, 3 …
    seq: int
    #: When it was sent: RFC 3339, UTC.
    ts: str
    #: The id of the request that caused it.
    id: Optional[str]
    #: How many events of the connection were lost since the event before it in this stream: gaps in `seq`, and what the
    #: stream dropped because its reader was behind. After a loss, ask for the state anew (`get_messages`, `get_state`).
    missed: int = 0


class EventStream:
    """The events of some topics, as an iterator; `with` closes it. It ends when the connection does."""

    def __init__(self, bridge: Bridge, topics: Sequence[str], timeout: Optional[float]):
        self.topics = frozenset(topics)
        #: The seconds that the iterator waits for an event before it raises `BridgeTimeout`; None waits for ever.
        self.timeout = timeout
        self._bridge = bridge
        self._events: collections.deque[Event] = collections.deque()
        self._missed = 0
        #: What the callback raised for a question that came while this stream was open.
        self._question_error: Optional[Exception] = None
        self._changed = threading.Condition()
        self._closed = False

    def __enter__(self) -> EventStream:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        event = self.next(self.timeout)
        if event is None:
            raise StopIteration
        return event

    def next(self, timeout: Optional[float] = None) -> Optional[Event]:
        """The next event; None after the end of the connection. Raises `BridgeTimeout`."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._events or self._closed, timeout):
                raise BridgeTimeout(f"no event of {', '.join(sorted(self.topics))} within {timeout} s")
            return self._events.popleft() if self._events else None

    def close(self) -> None:
        """Ends the stream. The subscription stays, because other streams may have the same topics."""
        self._bridge._forget(self)
        self._end()

    def _end(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _lost(self, count: int) -> None:
        with self._changed:
            self._missed += count

    def _put(self, event: Event) -> None:
        with self._changed:
            if len(self._events) == MAX_EVENTS:
                oldest = self._events.popleft()
                # The loss is told at the place where it is: the event that is now the oldest.
                following = self._events.popleft()
                self._events.appendleft(
                    dataclasses.replace(following, missed=following.missed + oldest.missed + 1)
                )
            self._events.append(dataclasses.replace(event, missed=self._missed) if self._missed else event)
            self._missed = 0
            self._changed.notify()


@dataclasses.dataclass(frozen=True)
class Question:
    """A typed question. The callback returns one of its answers, or None to leave it to somebody else."""

    #: "approve", "confirm", "select", "ask" and others: docs/protocol.md and spec/interactions.allium.
    kind: str
    #: What is asked. An approval has `tool`, `call-summary` and, if they apply, `command`, `diff`, `paths`, `proposal`.
    payload: dict
    id: str
    #: The event's whole payload, with `session-id`, `turn-id`, `subagent-label`.
    data: dict

    def accept(self, **value: Any) -> dict:
        """Any answer by its value: `accept(ok=True)`, `accept(index=0)`, `accept(text="…")`."""
        return {"status": "accepted", "value": keys(value)}

    def approve(self, scope: str = "once", note: Optional[str] = None) -> dict:
        """Allows a call, for "once", for the "session", or by the suggested "rule"."""
        value: dict = {"outcome": "approve", "scope": scope}
        if scope == "rule":
            value["rule"] = self.payload["suggested-rule"]
        return {"status": "accepted", "value": keys(value), **({"note": note} if note else {})}

    def deny(self, note: Optional[str] = None) -> dict:
        """Refuses a call. The model reads the note."""
        value = keys({"outcome": "deny", "scope": "once"})
        return {"status": "accepted", "value": value, **({"note": note} if note else {})}

    def cancel(self) -> dict:
        """Gives no answer: what asked goes on without one."""
        return {"status": "cancelled"}


@dataclasses.dataclass(frozen=True)
class Answer:
    """What came of a prompt."""

    #: The text of the model's last message.
    text: str
    #: "completed", "aborted", "interrupted" or "failed"; "command" for a slash command, which has no turn.
    outcome: str
    turn_id: Optional[str] = None
    stop_reason: Optional[str] = None
    error: Optional[str] = None
    usage: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    #: All messages of the model in this turn, each the payload of `assistant/message`.
    messages: tuple = ()


# The connection.


class _Pending:
    """A request that waits for its answer."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.frame: Optional[dict] = None


class Bridge:
    """A connection to a bridge. `start` and `attach` make one. `with` closes it."""

    def __init__(
        self,
        reader: Any,
        writer: Any,
        *,
        on_question: Optional[Callable[[Question], Optional[dict]]] = None,
        name: str = "python",
        features: Iterable[str] = (),
        timeout: float = REQUEST_TIMEOUT,
        process: Optional[subprocess.Popen] = None,
        hang_up: Callable[[], None] = lambda: None,
    ):
        #: The seconds that a request waits for its answer by default.
        self.timeout = timeout
        #: The process, if `start` started it.
        self.process = process
        #: How many events of the connection were lost: see `Event.missed`.
        self.missed = 0
        self._reader, self._writer, self._hang_up = reader, writer, hang_up
        self._lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._ids = itertools.count(1)
        self._pending: dict[str, _Pending] = {}
        self._streams: list[EventStream] = []
        self._seq = 0
        self._why_closed: Optional[str] = None
        self._on_question = on_question
        #: Each question with the streams that were open when it came.
        self._questions: queue.Queue[Optional[tuple[Question, list[EventStream]]]] = queue.Queue(MAX_QUESTIONS)
        threading.Thread(target=self._read, name="edn-bridge reader", daemon=True).start()
        try:
            wanted = [*features, *(["interactor"] if on_question else [])]
            client = {"name": name, "version": "1", "protocol-version": PROTOCOL_VERSION, "features": wanted}
            #: What the bridge says of itself: its version, and the id of the session that the connection shows.
            self.server_info: dict = self.request("handshake", client_info=keys(client))["server-info"]
            if on_question:
                threading.Thread(target=self._answer_questions, name="edn-bridge questions", daemon=True).start()
                self.request("subscribe", topics=["interaction/requested"])
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Bridge:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def request(self, op: str, *, timeout: Optional[float] = None, **params: Any) -> dict:
        """Makes a request and returns the `:data` of its answer.

        Params are keyword arguments with `_` for `-`; those that are None are left out. Keys of maps inside of them are
        as they are: see `keys`. Raises the `WireError` of the answer's code, `BridgeTimeout` or `BridgeClosed`.
        """
        pending = _Pending()
        with self._lock:
            if self._why_closed:
                raise BridgeClosed(self._why_closed)
            request_id = str(next(self._ids))
            self._pending[request_id] = pending
        try:
            named = {Keyword(key.replace("_", "-")): value for key, value in params.items() if value is not None}
            frame = {"id": request_id, "kind": Keyword("request"), "op": op, "params": named}
            self._send({Keyword(key): value for key, value in frame.items()})
            seconds = self.timeout if timeout is None else timeout
            if not pending.done.wait(seconds):
                raise BridgeTimeout(f"{op}: no answer within {seconds} s")
        finally:
            with self._lock:
                self._pending.pop(request_id, None)
        answer = pending.frame
        if answer is None:
            raise BridgeClosed(f"{op}: {self._why_closed}")
        if answer["kind"] == "error":
            raise WireError.of(answer)
        return answer["data"]

    def events(self, *topics: str, timeout: Optional[float] = None) -> EventStream:
        """Subscribes to topics and returns their events from now on, the snapshots of `subscribe` first."""
        stream = EventStream(self, topics, timeout)
        with self._lock:
            if self._why_closed:
                raise BridgeClosed(self._why_closed)
            self._streams.append(stream)
        try:
            ignored = self.request("subscribe", topics=list(topics)).get("ignored")
            if ignored:
                raise ValueError(f"no such topic: {', '.join(ignored)}")
        except BaseException:
            stream.close()
            raise
        return stream

    def prompt(
        self,
        message: str,
        *,
        timeout: Optional[float] = None,
        on_delta: Optional[Callable[[str], None]] = None,
        check: bool = True,
        **params: Any,
    ) -> Answer:
        """Starts a turn and waits for its end, at most `timeout` seconds (None: for ever).

        `on_delta` gets the text as it comes. Raises `TurnEnded` if the turn does not complete, unless `check` is false;
        `BridgeTimeout` if it takes too long (it goes on: `abort` ends it); and what the callback raised for a question
        that came meanwhile.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self.events("assistant/delta", "assistant/message", "turn/ended") as events:
            turn_id = self.request("prompt", message=message, **params).get("turn-id")
            if turn_id is None:
                return Answer("", "command")
            messages: list[dict] = []
            while True:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                event = events.next(left)
                if event is None:
                    raise BridgeClosed(f"prompt: {self._why_closed}")
                data = event.data
                if data.get("turn-id") != turn_id:
                    continue
                if event.topic == "assistant/delta" and on_delta:
                    on_delta(data["text"])
                elif event.topic == "assistant/message":
                    messages.append(data)
                elif event.topic == "turn/ended":
                    break
        if events._question_error is not None:
            raise events._question_error
        answer = Answer(
            text=_text(messages[-1]) if messages else "",
            outcome=data["outcome"],
            turn_id=turn_id,
            stop_reason=data.get("stop-reason"),
            error=data.get("error-message"),
            usage=data.get("usage") or {},
            messages=tuple(messages),
        )
        if check and answer.outcome != "completed":
            raise TurnEnded(answer)
        return answer

    def abort(self) -> bool:
        """Ends the running turn at once. Returns whether there was one."""
        return self.request("abort")["accepted"]

    def query_eql(self, query: str, *, entity: Optional[str] = None, strict: bool = True, **params: Any) -> dict:
        """Queries the graph. A strict query raises `QueryFailed` for what cannot be resolved; else it is left out."""
        return self.request("query_eql", query=query, entity=entity, strict=strict, **params)["result"]

    def close(self) -> None:
        """Ends the connection; of a bridge that `start` started, the process too."""
        self._end("the connection was closed")
        try:
            # Closing waits for a writer in another thread. If that one is stuck, the process ends it below.
            if self._write_lock.acquire(timeout=CLOSE_TIMEOUT):
                try:
                    self._writer.close()
                finally:
                    self._write_lock.release()
        except OSError:
            pass  # The other side has gone already.
        self._hang_up()
        if self.process is not None:
            try:
                self.process.wait(CLOSE_TIMEOUT)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def _send(self, frame: dict) -> None:
        line = dumps(frame).encode() + b"\n"
        if len(line) > MAX_LINE:
            raise EdnError(f"the request has {len(line)} bytes; a line has at most {MAX_LINE}")
        try:
            with self._write_lock:
                self._writer.write(line)
                self._writer.flush()
        except (OSError, ValueError):
            raise BridgeClosed(f"{frame['op']}: {self._why_closed or 'the bridge reads no more'}") from None

    def _read(self) -> None:
        """The reader's thread: each line is an answer or an event."""
        why = "the bridge has ended"
        try:
            while True:
                line = self._reader.readline(MAX_RECEIVED)
                if not line.endswith(b"\n"):
                    if line:
                        why = "the bridge has ended in the middle of a line" if len(line) < MAX_RECEIVED else \
                            f"the bridge sent a line of more than {MAX_RECEIVED} bytes"
                    break
                self._take(loads(line.decode()))
        except (EdnError, UnicodeDecodeError, KeyError, TypeError) as error:
            why = f"the bridge sent what is no frame: {error!r}"
        except (OSError, ValueError):
            pass  # The connection was closed on this side.
        if self.process is not None and self._why_closed is None:
            try:
                why += f" (exit status {self.process.wait(1)})"
            except subprocess.TimeoutExpired:
                pass  # It has closed its output and lives on: there is no status.
        self._end(why)
        self._reader.close()

    def _take(self, frame: dict) -> None:
        if frame["kind"] == "event":
            self._take_event(frame)
            return
        with self._lock:
            pending = self._pending.get(frame.get("id", ""))
        if pending is not None:
            pending.frame = frame
            pending.done.set()
        elif frame["kind"] == "error" and "id" not in frame:
            _log.warning("the bridge refused a line: %s", WireError.of(frame))

    def _take_event(self, frame: dict) -> None:
        topic, seq = frame["event"], frame["seq"]
        lost = max(0, seq - self._seq - 1)
        self._seq = seq
        event = Event(topic, frame["data"], seq, frame["ts"], frame.get("id"))
        with self._lock:
            self.missed += lost
            streams = list(self._streams)
        for stream in streams:
            if lost:
                stream._lost(lost)
            if topic in stream.topics:
                stream._put(event)
        if topic == "interaction/requested" and self._on_question:
            data = event.data
            question = Question(data["kind"], data["payload"], data["interaction-id"], data)
            try:
                self._questions.put_nowait((question, streams))
            except queue.Full:
                _log.warning("a question is left open, because %d others wait", MAX_QUESTIONS)

    def _answer_questions(self) -> None:
        """The thread of the callback."""
        while True:
            taken = self._questions.get()
            if taken is None:
                return
            question, streams = taken
            try:
                answer = self._on_question(question)
            except Exception as error:
                # The question must not stay open: its turn would wait for ever.
                self._question_failed(error, streams)
                answer = question.cancel()
            if answer is None:
                continue
            try:
                self.request("interaction_respond", interaction_id=question.id, **answer)
            except (InteractionAlreadyAnswered, NotFound, BridgeClosed):
                pass  # Somebody else was faster, or it is asked no more.
            except Exception as error:
                self._question_failed(error, streams)
                self._cancel(question)

    def _question_failed(self, error: Exception, streams: list[EventStream]) -> None:
        """Tells the prompt that waits for the question's turn, which raises it; the log if nobody waits any more."""
        for stream in streams:
            stream._question_error = error
        if all(stream._closed for stream in streams):
            _log.warning("the callback for a question raised: %r", error)

    def _cancel(self, question: Question) -> None:
        try:
            self.request("interaction_respond", interaction_id=question.id, **question.cancel())
        except BridgeError:
            pass  # The first error tells what went wrong.

    def _forget(self, stream: EventStream) -> None:
        with self._lock:
            if stream in self._streams:
                self._streams.remove(stream)

    def _end(self, why: str) -> None:
        with self._lock:
            if self._why_closed is not None:
                return
            self._why_closed = why
            pending, streams = list(self._pending.values()), list(self._streams)
        for request in pending:
            request.done.set()
        for stream in streams:
            stream._end()
        try:
            self._questions.put_nowait(None)
        except queue.Full:
            pass  # The thread ends with the script; its requests fail from now on.


def _text(message: Mapping[str, Any]) -> str:
    """The text of a message. An event has a long one only in its blocks."""
    blocks = message.get("content") or []
    return message.get("text") or "".join(block["text"] for block in blocks if block["type"] == "text")


# Where a bridge is found.


def start(
    command: Sequence[str] = ("edn-bridge", "serve"),
    *,
    cwd: Optional[str] = None,
    env: Optional[Mapping[str, str]] = None,
    stderr: Any = None,
    **options: Any,
) -> Bridge:
    """Starts a bridge in a folder. With a daemon the turn goes on when the script ends: see docs/daemon.md.

    `options` are those of `Bridge`: `on_question`, `name`, `features`, `timeout`. Raises `FileNotFoundError` if there
    is no such program.
    """
    process = subprocess.Popen(
        list(command), cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
    )
    return Bridge(process.stdout, process.stdin, process=process, **options)


def attach(
    path: Optional[str] = None, *, cwd: Optional[str] = None, state_dir: Optional[str] = None, **options: Any
) -> Bridge:
    """Connects to a running bridge: to the socket at `path`, or to the newest one of the project in `cwd`.

    The connection begins with a session of its own; `request("switch_session", session_id=…)` shows another one.
    Raises `BridgeClosed` if no bridge runs there.
    """
    paths = [path] if path else sockets(cwd, state_dir)
    for candidate in paths:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(candidate)
        except OSError:
            connection.close()
            continue

        def hang_up(connection: socket.socket = connection) -> None:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # The other side has hung up.
            connection.close()

        return Bridge(connection.makefile("rb"), connection.makefile("wb"), hang_up=hang_up, **options)
    raise BridgeClosed(f"no bridge runs {'at ' + path if path else 'for ' + os.path.realpath(cwd or '.')}")


def sockets(cwd: Optional[str] = None, state_dir: Optional[str] = None) -> list[str]:
    """The sockets of the project in `cwd`, newest first: docs/protocol.md#attaching. Some may be of dead processes."""
    if state_dir is None:
        state_dir = os.environ.get("EDN_BRIDGE_STATE_DIR")
    if state_dir is None:
        state_home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
        state_dir = os.path.join(state_home, "edn-bridge")
    folder = os.path.join(state_dir, "run")
    project = hashlib.sha256(os.fsencode(os.path.realpath(cwd or "."))).hexdigest()[:12]
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    found = []
    for name in names:
        if name.startswith(project + "-") and name.endswith(".sock") and not name.endswith(".control.sock"):
            path = os.path.join(folder, name)
            try:
                found.append((os.stat(path).st_mtime_ns, path))
            except OSError:
                pass  # It was removed meanwhile.
    return [path for _, path in sorted(found, reverse=True)]
