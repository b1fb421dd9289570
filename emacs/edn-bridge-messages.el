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

(defvar-local edn-bridge-messages--shown nil
  "Texts shown of the message that is not complete yet, last first.
They may be in several places: a tool call or a word of the user's can
come in between.")

(defvar-local edn-bridge-messages--echoes nil
  "Texts that the user sent and that are shown, but not yet confirmed.")

(defvar-local edn-bridge-messages--oldest nil
  "Id of the oldest message shown.")

(defvar-local edn-bridge-messages--more nil
  "Non-nil if there are messages before the oldest one shown.
A button at the top of the transcript, in a line of its own, says so.")

(cl-defstruct (edn-bridge-messages--stream (:copier nil))
  "A message that is streaming in."
  kind                       ; `text' or `thinking'
  start                      ; marker where its text starts
  (size 0)                   ; length of its text, for `text'
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
    (when (eq kind 'text)
      (push text edn-bridge-messages--shown)
      (setf (edn-bridge-messages--stream-size stream)
            (+ (edn-bridge-messages--stream-size stream) (length text))))
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
      (edn-bridge-messages--complete (edn-bridge-messages-text data)
                                     (plist-get data :entry-id))
      (edn-bridge-messages--show-outcome data))))

(defun edn-bridge-messages--complete (text entry)
  "Have TEXT, of the journal's ENTRY or nil, shown once as a whole message."
  (let* ((stream edn-bridge-messages--stream)
         (shown (apply #'concat (reverse edn-bridge-messages--shown))))
    (cond
     ((equal text shown))
     ((and stream
           (= (edn-bridge-messages--stream-size stream) (length shown))
           (not (equal shown "")))
      (edn-bridge-messages--replace-stream stream text))
     ((and (not (equal shown "")) (string-prefix-p shown text))
      (edn-bridge-messages--stream-text 'text
                                        (substring text (length shown))))
     (t
      (edn-bridge-messages--end-stream)
      (edn-bridge-messages--insert-text
       "Assistant" 'edn-bridge-messages-assistant text entry)))
    (when (and entry edn-bridge-messages--stream)
      (edn-bridge-transcript-edit
        (put-text-property
         (edn-bridge-messages--stream-start edn-bridge-messages--stream)
         (edn-bridge-transcript-end)
         'edn-bridge-entry entry)))
    (edn-bridge-messages--end-stream)
    (setq edn-bridge-messages--shown nil)))

(defun edn-bridge-messages--replace-stream (stream text)
  "Put TEXT in the place of what came as STREAM."
  (let ((start (marker-position (edn-bridge-messages--stream-start stream))))
    (edn-bridge-transcript-edit
      (delete-region start (edn-bridge-transcript-end))
      (goto-char start)
      (insert text)
      (edn-bridge-markdown-region start (edn-bridge-transcript-end))
      (edn-bridge-transcript-protect start (edn-bridge-transcript-end)))
    (setf (edn-bridge-messages--stream-markdown stream) nil)))

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
                                    (plist-get data :entry-id))
      (edn-bridge-messages--insert-images data))))

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

(defcustom edn-bridge-messages-image-width 480
  "How many pixels wide images in messages are shown at most.
0 means that they are only named."
  :type 'natnum
  :group 'edn-bridge)

(defun edn-bridge-messages--insert-images (message)
  "Add the images in MESSAGE to the transcript, each in a line.
Where they cannot be shown, they are named."
  (let ((content (plist-get message :content)))
    (unless (stringp content)
      (seq-do (lambda (block)
                (when (eq (plist-get block :type) :image)
                  (edn-bridge-transcript-add
                    (edn-bridge-transcript-fresh-line)
                    (insert (edn-bridge-messages--image block) "\n"))))
              content))))

(defun edn-bridge-messages--image (block)
  "Return the text that shows the image of BLOCK, or names it."
  (let* ((type (edn-bridge-chat-word (plist-get block :mime-type)))
         (data (or (plist-get block :data) ""))
         (name (format "[%s, %s]" type
                       (file-size-human-readable (/ (* 3 (length data)) 4))))
         (image (and (> edn-bridge-messages-image-width 0)
                     (display-images-p)
                     ;; What is no image is named.
                     (ignore-errors
                       (create-image
                        (base64-decode-string data)
                        nil t :max-width edn-bridge-messages-image-width)))))
    (propertize name
                'face 'edn-bridge-chat-notice
                'display image)))

(defun edn-bridge-messages--rebuild (data)
  "Show the `:messages' in DATA instead of what the transcript shows.
Where `:more' is true there are earlier ones."
  (when-let ((stream edn-bridge-messages--stream))
    (set-marker (edn-bridge-messages--stream-start stream) nil))
  (setq edn-bridge-messages--stream nil
        edn-bridge-messages--deltas nil
        edn-bridge-messages--shown nil
        edn-bridge-messages--echoes nil
        edn-bridge-messages--more nil)
  (edn-bridge-transcript-clear)
  (run-hook-with-args 'edn-bridge-chat-rebuild-functions data)
  (let* ((messages (plist-get data :messages))
         (count (length messages))
         (first (max 0 (- count edn-bridge-chat-page))))
    (edn-bridge-messages--insert-messages (substring messages first))
    (edn-bridge-messages--set-more
     (or (> first 0) (edn-bridge-edn-true-p (plist-get data :more)))))
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
                                   (plist-get message :id))
     (edn-bridge-messages--insert-images message))
    ("assistant"
     (edn-bridge-messages--insert-blocks message)
     (edn-bridge-messages--insert-images message)
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

(defun edn-bridge-messages--set-more (more)
  "Have a button for earlier messages at the top if MORE, else none."
  (when edn-bridge-messages--more
    (edn-bridge-transcript-edit
      (goto-char (point-min))
      (delete-region (point) (line-beginning-position 2))))
  (setq edn-bridge-messages--more more)
  (when more
    (edn-bridge-transcript-at-top
      (edn-bridge-transcript-add
        (edn-bridge-chat-insert-button "Earlier messages"
                                       #'edn-bridge-messages-show-earlier)
        (insert "\n")))))

(defun edn-bridge-messages-show-earlier ()
  "Show earlier messages above those that are shown."
  (interactive nil edn-bridge-chat-mode)
  (let ((conn (edn-bridge-chat-current))
        (oldest edn-bridge-messages--oldest))
    (unless edn-bridge-messages--more
      (user-error "There are no earlier messages"))
    (edn-bridge-rpc-request
     conn "get_messages" (list :before oldest :limit edn-bridge-chat-page)
     :on-success
     (lambda (data)
       (edn-bridge-chat-with-buffer conn
         ;; The button may have been pushed twice.
         (when (equal oldest edn-bridge-messages--oldest)
           (edn-bridge-messages--set-more nil)
           (edn-bridge-transcript-at-top
             (edn-bridge-messages--insert-messages (plist-get data :messages))
             (edn-bridge-transcript-add
               (edn-bridge-transcript-fresh-line 'blank)))
           (edn-bridge-messages--set-more
            (edn-bridge-edn-true-p (plist-get data :more)))))))))

;;;; What the user says

(defun edn-bridge-messages-echo (text &optional note expected images)
  "Show TEXT as said by the user, with NOTE, a word, where there is one.
IMAGES, property lists of `:mime-type' and `:data', are shown below it.
EXPECTED non-nil means that the bridge may send it as a message too, which
is then not shown again."
  (edn-bridge-chat-settle 'end)
  (edn-bridge-messages--insert-text (if note (format "You (%s)" note) "You")
                                'edn-bridge-messages-user text nil)
  (edn-bridge-messages--insert-images
   (list :content (seq-map (lambda (image) (append '(:type :image) image))
                           images)))
  (when expected
    (push text edn-bridge-messages--echoes)))

(defun edn-bridge-messages-forget-echo (text)
  "Expect TEXT as a message of the bridge no more."
  (setq edn-bridge-messages--echoes (remove text edn-bridge-messages--echoes)))

;;;; Registering

(defun edn-bridge-messages--setup ()
  "Have `imenu' go to what the user said in this chat."
  (setq-local imenu-generic-expression
              '((nil "^You\\(?: (.+)\\)?\n\\(.+\\)" 1))
              imenu-case-fold-search nil))

(add-hook 'edn-bridge-chat-mode-hook #'edn-bridge-messages--setup)

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

(defun edn-bridge-messages--on-turn-end ()
  "Note that no message is coming any more."
  (setq edn-bridge-messages--shown nil))

(add-hook 'edn-bridge-chat-settle-functions #'edn-bridge-messages--settle)
(add-hook 'edn-bridge-chat-turn-end-hook #'edn-bridge-messages--on-turn-end)
(edn-bridge-chat-handle "assistant/delta"
                        #'edn-bridge-messages--on-text 'collected)
(edn-bridge-chat-handle "assistant/thinking-delta"
                        #'edn-bridge-messages--on-thinking 'collected)
(edn-bridge-chat-handle "assistant/message" #'edn-bridge-messages--on-message)
(edn-bridge-chat-handle "session/rehydrated" #'edn-bridge-messages--on-rehydrated)

(provide 'edn-bridge-messages)

;;; edn-bridge-messages.el ends here
