;;; edn-bridge-follow.el --- Go on where a chat was  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; A chat that was away, while its session went on, says how much of the
;; journal and of the running answer it shows.  The bridge tells the rest:
;; the missing entries, what is in flight, and that this was all.  An entry
;; is shown by the events that would have told of it, so that the
;; transcript is what it would be, and nothing in it is built again.
;;
;; Where that is not possible (the history is another one, or what was
;; streaming got lost), the transcript is built again.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-chat)
(require 'edn-bridge-messages)
(require 'edn-bridge-tools)

(defun edn-bridge-follow--on-entry (data)
  "Where this chat is told what it missed, show DATA of `session/entry'."
  (when (and edn-bridge-chat-following
             (edn-bridge-chat-mine-p data)
             (> (plist-get data :offset) (or (car edn-bridge-chat--place) 0)))
    (let* ((entry (plist-get data :entry))
           (message (plist-get entry :message)))
      (pcase (edn-bridge-chat-word (plist-get entry :type))
        ("message"
         (unless (edn-bridge-follow--shown-p (plist-get entry :id))
           (pcase (edn-bridge-chat-word (plist-get message :role))
             ("user" (edn-bridge-follow--user message))
             ("assistant" (edn-bridge-follow--assistant message))
             ("tool" (edn-bridge-follow--result message))
             (_ (edn-bridge-follow--build-again)))))
        ("turn"
         (when (equal (plist-get entry :event) "ended")
           (setq edn-bridge-chat-left-running nil)))
        ;; What is above changed with these.
        ((or "leaf" "rewritten" "compaction")
         (edn-bridge-follow--build-again))))))

(defun edn-bridge-follow--build-again ()
  "Have the transcript built again when all that was missed is told."
  (setq edn-bridge-chat-following 'again))

(defun edn-bridge-follow--shown-p (id)
  "Return non-nil if the message of the entry ID is shown.
It may be one that waited for its event when the connection ended."
  (and (member id edn-bridge-chat-doubtful)
       (or (edn-bridge-messages-shown-p id)
           (edn-bridge-transcript-find 'edn-bridge-entry id (point-min)
                                       (edn-bridge-transcript-end)))))

(defun edn-bridge-follow--show (topic &rest data)
  "Show DATA of an event of TOPIC, which this chat missed."
  (edn-bridge-chat-show-event
   topic (append (list :session-id edn-bridge-chat--session-id) data)))

(defun edn-bridge-follow--user (message)
  "Show MESSAGE of a user, which was delivered meanwhile."
  (edn-bridge-follow--show "user/message"
                           :role "user"
                           :content (plist-get message :content)
                           :sender (plist-get message :sender)
                           :from '(:kind "earlier")
                           :entry-id (plist-get message :id)))

(defun edn-bridge-follow--assistant (message)
  "Show MESSAGE of the assistant, of which a part may be shown."
  (let* ((at (edn-bridge-messages-in-answer))
         (chars (or (plist-get at :chars) 0))
         (thinking (or (plist-get at :thinking) 0))
         (content (plist-get message :content)))
    (cl-flet ((rest-of (text shown)
                (substring text (min shown (length text)))))
      (seq-do
       (lambda (block)
         (let ((text (or (plist-get block :text) "")))
           (pcase (plist-get block :type)
             (:text
              (edn-bridge-follow--show "assistant/delta"
                                       :text (rest-of text chars))
              (setq chars (max 0 (- chars (length text)))))
             (:thinking
              (edn-bridge-follow--show "assistant/thinking-delta"
                                       :text (rest-of text thinking))
              (setq thinking (max 0 (- thinking (length text)))))
             (:tool-call
              (edn-bridge-follow--show "tool/start"
                                       :tool-id (plist-get block :id)
                                       :tool-name (plist-get block :name)
                                       :parsed-args
                                       (plist-get block :arguments))))))
       (if (stringp content)
           (list (list :type :text :text content))
         content)))
    (edn-bridge-follow--show "assistant/message"
                             :role "assistant"
                             :content content
                             :stop-reason (plist-get message :stop-reason)
                             :error-message (plist-get message :error-message)
                             :entry-id (plist-get message :id))))

(defun edn-bridge-follow--result (message)
  "Show the result of a call that MESSAGE holds."
  (let ((id (plist-get message :tool-call-id)))
    (cond
     ((not (edn-bridge-tools-known-p id))
      (edn-bridge-follow--build-again))
     ((not (edn-bridge-tools-done-p id))
      (edn-bridge-follow--show "tool/result"
                               :tool-id id
                               :content (plist-get message :content)
                               :result-text (edn-bridge-messages-text message)
                               :is-error (plist-get message :is-error)
                               :details (plist-get message :details)
                               :duration-ms (plist-get message :duration-ms)
                               :entry-id (plist-get message :id))))))

(defun edn-bridge-follow--on-synced (data)
  "Note that this chat shows all up to DATA of `session/synced'."
  (when (and edn-bridge-chat-following
             (edn-bridge-chat-mine-p data))
    (let ((rebuilt (eq edn-bridge-chat-following 'rebuilt))
          (ended (not (edn-bridge-chat-running-p)))
          (partly (or (edn-bridge-messages-in-answer)
                      (edn-bridge-tools-unfinished-p))))
      (setq edn-bridge-chat-doubtful nil)
      (cond
       (rebuilt
        (setq edn-bridge-chat-following nil))
       ((or (eq edn-bridge-chat-following 'again)
            ;; The bridge ended in the turn.
            (and ended (or partly edn-bridge-chat-left-running)))
        (setq edn-bridge-chat--cut (and ended partly t))
        (edn-bridge-chat-follow-anew))
       (t
        (setq edn-bridge-chat-following nil
              edn-bridge-chat--cut nil)
        (run-hooks 'edn-bridge-chat-followed-hook)
        (run-hooks 'edn-bridge-chat-ready-hook))))))

(defun edn-bridge-follow--on-diagnostic (data)
  "Expect to be told what was missed, where DATA of `diagnostic' announces it.
That is so on a connection that has asked for it once."
  (when (and (equal (plist-get data :code) "delivery/behind")
             edn-bridge-chat--conn
             (eq edn-bridge-chat--conn edn-bridge-chat--followed))
    (edn-bridge-chat-doubt)
    (setq edn-bridge-chat-following t)))

(edn-bridge-chat-handle "session/entry" #'edn-bridge-follow--on-entry)
(edn-bridge-chat-handle "session/synced" #'edn-bridge-follow--on-synced)
(edn-bridge-chat-handle "diagnostic" #'edn-bridge-follow--on-diagnostic)

(provide 'edn-bridge-follow)

;;; edn-bridge-follow.el ends here
