;;; edn-bridge-messages.el --- The messages of a chat  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Shows the messages of a chat's session: as they stream in, when they are
;; complete, and those of the journal, a page at a time.
;;
;; Texts that came together are added together: they are collected until
;; another event or the end of the batch, and then inserted once.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'edn-bridge-markdown)
(require 'edn-bridge-chat)

(defcustom edn-bridge-messages-show-thinking t
  "Non-nil means that what the model thinks aloud is shown."
  :type 'boolean
  :group 'edn-bridge)

(defface edn-bridge-messages-user
  '((t :inherit font-lock-keyword-face :weight bold))
  "Face of the heading of the user's messages."
  :group 'edn-bridge)

(defface edn-bridge-messages-assistant
  '((t :inherit font-lock-type-face :weight bold))
  "Face of the heading of the assistant's messages."
  :group 'edn-bridge)

(defface edn-bridge-messages-thinking
  '((t :inherit (italic shadow)))
  "Face of what the model thinks aloud."
  :group 'edn-bridge)

(defvar-local edn-bridge-messages--stream nil
  "The message that is streaming in, an `edn-bridge-messages--stream', or nil.")

(defvar-local edn-bridge-messages--deltas nil
  "Texts that came and are not shown yet, last first.")

(defvar-local edn-bridge-messages--delta-kind nil
  "What the texts in `edn-bridge-messages--deltas' are: `text' or `thinking'.")

(defvar-local edn-bridge-messages--echoes nil
  "Texts that the user sent and that are shown, but not yet confirmed.")

(defvar-local edn-bridge-messages--oldest nil
  "Id of the oldest message shown.")

(cl-defstruct (edn-bridge-messages--stream (:copier nil))
  "A message that is streaming in."
  kind                       ; `text' or `thinking'
  start                      ; marker where its text starts
  texts                      ; what came, last first
  markdown)                  ; state of the faces, for `text'

(defun edn-bridge-messages--on-rehydrated (data)
  "Show the messages in DATA of `session/rehydrated'."
  (when (edn-bridge-chat-mine-p data)
    (edn-bridge-messages--rebuild data)
    (run-hooks 'edn-bridge-chat-ready-hook)))

;;;; Streaming

(defun edn-bridge-messages--on-delta (kind data)
  "Keep the text in DATA, of KIND, until the next flush."
  (when (edn-bridge-chat-mine-p data)
    (unless (eq kind edn-bridge-messages--delta-kind)
      (edn-bridge-messages--flush)
      (setq edn-bridge-messages--delta-kind kind))
    (push (plist-get data :text) edn-bridge-messages--deltas)))

(defun edn-bridge-messages--flush ()
  "Add the texts that came to the transcript, all at once."
  (when edn-bridge-messages--deltas
    (let ((text (apply #'concat (nreverse edn-bridge-messages--deltas))))
      (setq edn-bridge-messages--deltas nil)
      (unless (and (eq edn-bridge-messages--delta-kind 'thinking)
                   (not edn-bridge-messages-show-thinking))
        (edn-bridge-messages--stream-text edn-bridge-messages--delta-kind text)))))

(defun edn-bridge-messages--stream-text (kind text)
  "Add TEXT of KIND to the message that streams in, beginning it if need be."
  (unless (and edn-bridge-messages--stream
               (eq kind (edn-bridge-messages--stream-kind edn-bridge-messages--stream)))
    (edn-bridge-messages--end-stream)
    (edn-bridge-messages--begin-stream kind))
  (let ((stream edn-bridge-messages--stream))
    (push text (edn-bridge-messages--stream-texts stream))
    (edn-bridge-transcript-add
      (let ((start (point)))
        (insert text)
        (let ((end (point)))
          (if (eq kind 'thinking)
              (put-text-property start end 'face 'edn-bridge-messages-thinking)
            (edn-bridge-markdown-feed (edn-bridge-messages--stream-markdown stream)
                                      start end)))))))

(defun edn-bridge-messages--begin-stream (kind)
  "Begin a message of KIND at the end of the transcript."
  (edn-bridge-chat-heading (if (eq kind 'thinking) "Thinking" "Assistant")
                            (if (eq kind 'thinking)
                                'edn-bridge-messages-thinking
                              'edn-bridge-messages-assistant))
  (let ((start (edn-bridge-transcript-end)))
    (setq edn-bridge-messages--stream
          (make-edn-bridge-messages--stream
           :kind kind
           :start (copy-marker start)
           :markdown (and (eq kind 'text)
                          (edn-bridge-markdown-begin start))))))

(defun edn-bridge-messages--end-stream ()
  "End the message that streams in, if there is one."
  (when-let ((stream edn-bridge-messages--stream))
    (setq edn-bridge-messages--stream nil)
    (edn-bridge-transcript-add
      (when (edn-bridge-messages--stream-markdown stream)
        (edn-bridge-markdown-finish (edn-bridge-messages--stream-markdown stream)
                                    (edn-bridge-transcript-end)))
      (goto-char (edn-bridge-transcript-end))
      (edn-bridge-transcript-fresh-line))
    (set-marker (edn-bridge-messages--stream-start stream) nil)))

;;;; Messages

(defun edn-bridge-messages--on-message (data)
  "Show DATA of `assistant/message': complete what streamed in, or add it."
  (when (edn-bridge-chat-mine-p data)
    (if (equal (edn-bridge-chat-word (plist-get data :role)) "user")
        (edn-bridge-messages--on-user-message data)
      (let ((stream edn-bridge-messages--stream)
            (text (edn-bridge-messages-text data)))
        (cond
         ((and stream
               (eq (edn-bridge-messages--stream-kind stream) 'text)
               (equal text (apply #'concat
                                  (reverse
                                   (edn-bridge-messages--stream-texts stream)))))
          (edn-bridge-messages--end-stream))
         ((and stream (eq (edn-bridge-messages--stream-kind stream) 'text))
          (edn-bridge-messages--replace-stream stream text))
         (t
          (edn-bridge-messages--end-stream)
          (unless (equal text "")
            (edn-bridge-messages--insert-text "Assistant"
                                          'edn-bridge-messages-assistant
                                          text (plist-get data :entry-id)))))
        (edn-bridge-messages--show-outcome data)))))

(defun edn-bridge-messages--replace-stream (stream text)
  "Put TEXT in the place of what came as STREAM, and end it."
  (let ((start (marker-position (edn-bridge-messages--stream-start stream))))
    (edn-bridge-transcript-add
      (delete-region start (edn-bridge-transcript-end))
      (goto-char (edn-bridge-transcript-end))
      (insert text)
      (edn-bridge-markdown-region start (point)))
    (setf (edn-bridge-messages--stream-markdown stream) nil)
    (edn-bridge-messages--end-stream)))

(defun edn-bridge-messages--show-outcome (message)
  "Show how MESSAGE of the assistant ended, where it did not end well."
  (let ((reason (edn-bridge-chat-word (plist-get message :stop-reason)))
        (failure (plist-get message :error-message)))
    (cond
     ((and (stringp failure) (not (equal failure "")))
      (edn-bridge-chat-notice failure 'edn-bridge-chat-error))
     ((member reason '("aborted" "interrupted"))
      (edn-bridge-chat-notice (concat "(" reason ")"))))))

(defun edn-bridge-messages--on-user-message (data)
  "Show DATA of a user's message, unless it was shown when it was sent."
  (let ((text (edn-bridge-messages-text data)))
    (if (member text edn-bridge-messages--echoes)
        (setq edn-bridge-messages--echoes
              (remove text edn-bridge-messages--echoes))
      (edn-bridge-messages--end-stream)
      (edn-bridge-messages--insert-text "You" 'edn-bridge-messages-user text
                                    (plist-get data :entry-id)))))

(defun edn-bridge-messages-text (message)
  "Return the text of MESSAGE, its text blocks joined."
  (let ((content (plist-get message :content)))
    (if (stringp content)
        content
      (mapconcat (lambda (block)
                   (if (eq (plist-get block :type) :text)
                       (or (plist-get block :text) "")
                     ""))
                 content ""))))

(defun edn-bridge-messages--rebuild (data)
  "Show the `:messages' in DATA instead of what the transcript shows.
Where `:more' is true there are earlier ones."
  (when-let ((stream edn-bridge-messages--stream))
    (set-marker (edn-bridge-messages--stream-start stream) nil))
  (setq edn-bridge-messages--stream nil
        edn-bridge-messages--deltas nil
        edn-bridge-messages--echoes nil)
  (edn-bridge-transcript-clear)
  (run-hook-with-args 'edn-bridge-chat-rebuild-functions data)
  (let* ((messages (plist-get data :messages))
         (count (length messages))
         (first (max 0 (- count edn-bridge-chat-page))))
    (edn-bridge-messages--insert-messages (substring messages first))
    (when (or (> first 0) (edn-bridge-edn-true-p (plist-get data :more)))
      (edn-bridge-messages--insert-more-button)))
  (run-hooks 'edn-bridge-chat-rebuilt-hook))

(defun edn-bridge-messages--insert-messages (messages)
  "Add MESSAGES, a vector, to the transcript."
  (when (> (length messages) 0)
    (setq edn-bridge-messages--oldest (plist-get (aref messages 0) :id))
    (mapc #'edn-bridge-messages--insert-message messages)))

(defun edn-bridge-messages--insert-message (message)
  "Add MESSAGE to the transcript."
  (pcase (edn-bridge-chat-word (plist-get message :role))
    ("user"
     (edn-bridge-messages--insert-text "You" 'edn-bridge-messages-user
                                   (edn-bridge-messages-text message)
                                   (plist-get message :id)))
    ("assistant"
     (edn-bridge-messages--insert-blocks message)
     (edn-bridge-messages--show-outcome message))
    ("tool"
     (when-let ((function (edn-bridge-chat-block-handler :tool-result)))
       (funcall function message message)))
    (_
     (let ((text (edn-bridge-messages-text message)))
       (unless (equal text "")
         (edn-bridge-chat-notice text))))))

(defun edn-bridge-messages--insert-blocks (message)
  "Add the content blocks of MESSAGE of the assistant to the transcript."
  (let ((content (plist-get message :content)))
    (if (stringp content)
        (edn-bridge-messages--insert-text "Assistant" 'edn-bridge-messages-assistant
                                      content (plist-get message :id))
      (seq-do
       (lambda (block)
         (let ((text (plist-get block :text)))
           (pcase (plist-get block :type)
             (:text
              (unless (equal text "")
                (edn-bridge-messages--insert-text
                 "Assistant" 'edn-bridge-messages-assistant
                 text (plist-get message :id))))
             (:thinking
              (when edn-bridge-messages-show-thinking
                (edn-bridge-messages--insert-thinking text)))
             (type
              (when-let ((function (edn-bridge-chat-block-handler type)))
                (funcall function block message))))))
       content))))

(defun edn-bridge-messages--insert-text (title face text entry)
  "Add a message of TEXT under TITLE in FACE, of the journal's ENTRY or nil."
  (let ((start (edn-bridge-transcript-end)))
    (edn-bridge-chat-heading title face)
    (edn-bridge-transcript-add
      (let ((from (point)))
        (insert text)
        (edn-bridge-markdown-region from (point))
        (goto-char (edn-bridge-transcript-end))
        (edn-bridge-transcript-fresh-line)
        (when entry
          (put-text-property start (point) 'edn-bridge-entry entry))))))

(defun edn-bridge-messages--insert-thinking (text)
  "Add TEXT that the model thought to the transcript."
  (edn-bridge-chat-heading "Thinking" 'edn-bridge-messages-thinking)
  (edn-bridge-transcript-add
    (insert (propertize text 'face 'edn-bridge-messages-thinking))
    (edn-bridge-transcript-fresh-line)))

;;;; Earlier messages

(defun edn-bridge-messages--insert-more-button ()
  "Put a button for earlier messages at the top of the transcript."
  (edn-bridge-transcript-at-top
    (edn-bridge-transcript-add
      (edn-bridge-chat-insert-button "Earlier messages"
                                     #'edn-bridge-messages-show-earlier)
      (insert "\n"))))

(defun edn-bridge-messages-show-earlier ()
  "Show earlier messages above those that are shown."
  (interactive nil edn-bridge-chat-mode)
  (let ((conn (edn-bridge-chat-current)))
    (edn-bridge-rpc-request
     conn "get_messages" (list :before edn-bridge-messages--oldest
                               :limit edn-bridge-chat-page)
     :on-success
     (lambda (data)
       (edn-bridge-chat-with-buffer conn
         (edn-bridge-transcript-edit
           (delete-region (point-min)
                          (progn (goto-char (point-min))
                                 (line-beginning-position 2))))
         (edn-bridge-transcript-at-top
           (edn-bridge-messages--insert-messages (plist-get data :messages)))
         (when (edn-bridge-edn-true-p (plist-get data :more))
           (edn-bridge-messages--insert-more-button)))))))

;;;; What the user says

(defun edn-bridge-messages-echo (text &optional note expected)
  "Show TEXT as said by the user, with NOTE, a word, where there is one.
EXPECTED non-nil means that the bridge may send it as a message too, which
is then not shown again."
  (edn-bridge-chat-settle 'end)
  (edn-bridge-messages--insert-text (if note (format "You (%s)" note) "You")
                                'edn-bridge-messages-user text nil)
  (when expected
    (push text edn-bridge-messages--echoes)))

(defun edn-bridge-messages-forget-echo (text)
  "Expect TEXT as a message of the bridge no more."
  (setq edn-bridge-messages--echoes (remove text edn-bridge-messages--echoes)))

;;;; Registering

(defun edn-bridge-messages--settle (end)
  "Show what was collected; with END, end the message that streams in."
  (edn-bridge-messages--flush)
  (when end
    (edn-bridge-messages--end-stream)))

(defun edn-bridge-messages--on-text (data)
  "Collect DATA of `assistant/delta'."
  (edn-bridge-messages--on-delta 'text data))

(defun edn-bridge-messages--on-thinking (data)
  "Collect DATA of `assistant/thinking-delta'."
  (edn-bridge-messages--on-delta 'thinking data))

(add-hook 'edn-bridge-chat-settle-functions #'edn-bridge-messages--settle)
(edn-bridge-chat-handle "assistant/delta"
                        #'edn-bridge-messages--on-text 'collected)
(edn-bridge-chat-handle "assistant/thinking-delta"
                        #'edn-bridge-messages--on-thinking 'collected)
(edn-bridge-chat-handle "assistant/message" #'edn-bridge-messages--on-message)
(edn-bridge-chat-handle "session/rehydrated" #'edn-bridge-messages--on-rehydrated)

(provide 'edn-bridge-messages)

;;; edn-bridge-messages.el ends here
