;;; edn-bridge-chat-state.el --- What a chat buffer knows  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; The variables of a chat buffer, what they say of its session, and who shows
;; which of its events: other files register for a topic with
;; `edn-bridge-chat-handle' or for a type of content block with
;; `edn-bridge-chat-handle-block'.
;;
;; Shows nothing and sends nothing.

;;; Code:

(require 'edn-bridge-edn)
(require 'edn-bridge-rpc)

(defvar-local edn-bridge-chat--conn nil
  "The buffer's connection, or nil.")

(defvar-local edn-bridge-chat--session-id nil
  "Id of the session that the buffer shows, kept when disconnected.")

(defvar-local edn-bridge-chat--session nil
  "What is known of the session, the data of `session/updated'.")

(defvar-local edn-bridge-chat--last-prompt nil
  "The text that began the last turn.")

(defvar-local edn-bridge-chat--heard nil
  "When something came of the turn that is running, or nil.")

(defvar-local edn-bridge-chat--news nil
  "Non-nil if something came of the turn since the end of the last batch.")

(defvar-local edn-bridge-chat-working nil
  "Tool calls that run: an alist from an id to a cons.
That has the name of the tool, and when this chat heard that the call runs.")

(defvar-local edn-bridge-chat--retry-kind nil
  "Why the model is called again: the kind of its last failure, a string.")

(defvar-local edn-bridge-chat-asking nil
  "Non-nil if the session waits for an answer of the user.")

(defvar-local edn-bridge-chat--stale nil
  "Non-nil if events got lost and the transcript is not built again yet.")

(defvar-local edn-bridge-chat--cut nil
  "Non-nil if the connection was lost while a turn was running.")

(defvar-local edn-bridge-chat--line-tried nil
  "How often this chat tried to reach its host again, or nil.")

(defvar-local edn-bridge-chat--outlives nil
  "Non-nil if what runs in this chat goes on without its connection.")

(defvar-local edn-bridge-chat-left-running nil
  "Non-nil if a turn whose end was not told was running when the chat left.")

(defvar-local edn-bridge-chat-following nil
  "Non-nil while the chat is told what it missed.
The symbol `rebuilt' means that its transcript was built again for that,
`again' that it must be.")

(defvar-local edn-bridge-chat--return nil
  "Timer that reconnects, or nil.")

;;;; What is known of the session

(defun edn-bridge-chat-get (key)
  "Return what is known of the session under KEY of `session/updated'."
  (plist-get edn-bridge-chat--session key))

(defun edn-bridge-chat-running-p ()
  "Return non-nil if a turn is running in the current chat buffer."
  (and (edn-bridge-rpc-live-p edn-bridge-chat--conn)
       (edn-bridge-edn-true-p (edn-bridge-chat-get :is-streaming))))

(defun edn-bridge-chat-word (value)
  "Return VALUE, a keyword, a symbol or a string, as a string, or nil."
  (cond ((null value) nil)
        ((keywordp value) (substring (symbol-name value) 1))
        (t (format "%s" value))))

(defun edn-bridge-chat-mine-p (data)
  "Return non-nil if DATA of an event concerns the session shown here."
  (let ((id (plist-get data :session-id)))
    (or (null id)
        (null edn-bridge-chat--session-id)
        (equal id edn-bridge-chat--session-id))))

;;;; Registering

(defvar edn-bridge-chat--handlers (make-hash-table :test #'equal)
  "Lists of functions by topic.")

(defvar edn-bridge-chat--block-handlers (make-hash-table :test #'eq)
  "Functions by type of content block.")

(defvar edn-bridge-chat--collected (make-hash-table :test #'equal)
  "Topics whose events are collected and shown together.")

(defun edn-bridge-chat-handle (topic function &optional collected)
  "Call FUNCTION with the data of each event of TOPIC, in its chat buffer.
Functions are called in the order in which they are registered.
COLLECTED non-nil means that what events of TOPIC show is collected, and
shown by a function of `edn-bridge-chat-settle-functions'.
The topic \"client/closed\" is the chat's own: its connection ended."
  (let ((functions (gethash topic edn-bridge-chat--handlers)))
    (unless (memq function functions)
      (puthash topic (append functions (list function))
               edn-bridge-chat--handlers)))
  (when collected
    (puthash topic t edn-bridge-chat--collected)))

(defun edn-bridge-chat-block-handler (type)
  "Return the function that shows content blocks of TYPE, or nil."
  (gethash type edn-bridge-chat--block-handlers))

(defun edn-bridge-chat-handle-block (type function)
  "Call FUNCTION to show content blocks of TYPE, a keyword.
It is called at the end of the transcript, which it may add to, with the
block and the message that has it."
  (puthash type function edn-bridge-chat--block-handlers))

(provide 'edn-bridge-chat-state)

;;; edn-bridge-chat-state.el ends here
