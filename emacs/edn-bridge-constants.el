;;; edn-bridge-constants.el --- Names of the protocol  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Generated from the catalogue of the bridge by `make generate'; do not edit.

;;; Code:

(defconst edn-bridge-constants-protocol-version "1.0"
  "Version of the protocol that this package speaks.")

(defconst edn-bridge-constants-ops
  '("handshake"
    "ping"
    "subscribe"
    "unsubscribe"
    "ack"
    "query_eql"
    "get_state"
    "get_messages"
    "get_session_stats"
    "get_fork_messages"
    "get_last_assistant_text"
    "get_commands"
    "get_available_models"
    "list_sessions"
    "read_output"
    "command"
    "frontend_action_result"
    "prompt"
    "steer"
    "follow_up"
    "prompt_while_streaming"
    "abort"
    "interrupt"
    "abort_retry"
    "control"
    "new_session"
    "switch_session"
    "fork"
    "set_session_name"
    "set_model"
    "cycle_model"
    "set_thinking_level"
    "cycle_thinking_level"
    "set_mode"
    "set_auto_compaction"
    "set_auto_retry"
    "compact"
    "trust_project"
    "resolve_dialog"
    "cancel_dialog"
    "interaction_respond"
    "login_begin"
    "login_complete"
    "logout"
    "bash"
    "abort_bash"
    "list_background_jobs"
    "inspect_background_job"
    "cancel_background_job"
    "export_html"
    "context_update")
  "Ops that the bridge serves.")

(defconst edn-bridge-constants-topics
  '("session/updated"
    "session/resumed"
    "session/rehydrated"
    "context/updated"
    "assistant/delta"
    "assistant/thinking-delta"
    "assistant/message"
    "user/message"
    "tool/start"
    "tool/delta"
    "tool/executing"
    "tool/update"
    "tool/result"
    "ui/dialog-requested"
    "ui/frontend-action-requested"
    "ui/widgets-updated"
    "ui/widget-specs-updated"
    "ui/status-updated"
    "ui/notification"
    "footer/updated"
    "command-result"
    "interaction/requested"
    "interaction/answered"
    "turn/stage"
    "turn/ended"
    "turn/retry"
    "compaction/started"
    "compaction/ended"
    "control/handled"
    "diagnostic"
    "job/updated"
    "error")
  "Topics of events.")

(defconst edn-bridge-constants-error-codes
  '("transport/not-ready"
    "transport/invalid-frame"
    "transport/max-pending-exceeded"
    "protocol/unsupported-version"
    "protocol/invalid-envelope"
    "request/invalid-id"
    "request/invalid-op"
    "request/invalid-params"
    "request/invalid-query"
    "request/op-not-supported"
    "request/session-not-idle"
    "request/not-found"
    "request/idempotency-conflict"
    "request/ledger-full"
    "request/unknown-model"
    "request/unknown-command"
    "request/no-pending-login"
    "request/no-active-dialog"
    "request/dialog-id-mismatch"
    "request/interaction-already-answered"
    "runtime/query-failed"
    "runtime/failed")
  "Codes of errors.")

(defconst edn-bridge-constants-features
  '("plist-frames"
    "interactor"
    "flow-credit")
  "Features that a handshake may ask for.")

(defconst edn-bridge-constants-slash-commands
  '("help"
    "?"
    "quit"
    "exit"
    "new"
    "resume"
    "tree"
    "fork"
    "mode"
    "trust"
    "workflow"
    "reload"
    "status"
    "history"
    "model"
    "thinking"
    "compact"
    "name"
    "prompts"
    "skills"
    "remember"
    "login"
    "logout"
    "worktree"
    "jobs"
    "job"
    "cancel-job"
    "tools"
    "export"
    "abort")
  "Slash commands, without the slash.")

(defconst edn-bridge-constants-thinking-levels
  '("off"
    "minimal"
    "low"
    "medium"
    "high"
    "xhigh")
  "Thinking levels, least first.")

(defconst edn-bridge-constants-modes
  '("ask"
    "accept-edits"
    "read-only"
    "yolo")
  "Names of the permission modes: what tools may do without asking.")

(provide 'edn-bridge-constants)

;;; edn-bridge-constants.el ends here
