;;; edn-bridge-chat.el --- The chat buffer  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; A buffer that talks with one session over one connection: it shows the
;; session's messages as they come and sends what the user drafts.
;;
;; What else is to be shown (tool calls, questions, notifications) is the
;; business of other files, which register for a topic with
;; `edn-bridge-chat-handle' or for a type of content block with
;; `edn-bridge-chat-handle-block'.

;;; Code:

(require 'cl-lib)
(require 'ring)
(require 'subr-x)
(require 'edn-bridge-edn)
(require 'edn-bridge-rpc)
(require 'edn-bridge-transcript)
(require 'edn-bridge-markdown)

;;;; Options

(defcustom edn-bridge-program "edn-bridge"
  "The edn-bridge program: a name that is searched for, or a file name."
  :type 'string
  :group 'edn-bridge)

(defcustom edn-bridge-program-args nil
  "Arguments for the program, after \"serve\"."
  :type '(repeat string)
  :group 'edn-bridge)

(defcustom edn-bridge-chat-page 100
  "How many messages of a session are shown at once when it is opened.
Earlier ones are shown on demand, as many at a time."
  :type 'natnum
  :group 'edn-bridge)

(defcustom edn-bridge-chat-show-thinking t
  "Non-nil means that what the model thinks aloud is shown."
  :type 'boolean
  :group 'edn-bridge)

(defface edn-bridge-chat-user
  '((t :inherit font-lock-keyword-face :weight bold))
  "Face of the heading of the user's messages."
  :group 'edn-bridge)

(defface edn-bridge-chat-assistant
  '((t :inherit font-lock-type-face :weight bold))
  "Face of the heading of the assistant's messages."
  :group 'edn-bridge)

(defface edn-bridge-chat-thinking
  '((t :inherit (italic shadow)))
  "Face of what the model thinks aloud."
  :group 'edn-bridge)

(defface edn-bridge-chat-notice
  '((t :inherit shadow))
  "Face of what the bridge has to say."
  :group 'edn-bridge)

(defface edn-bridge-chat-error
  '((t :inherit error))
  "Face of what went wrong."
  :group 'edn-bridge)

(defvar edn-bridge-chat-ready-hook nil
  "Normal hook run in a chat buffer when its session is connected and shown.")

(defvar edn-bridge-chat-turn-end-hook nil
  "Normal hook run in a chat buffer when a turn has ended.")

(defvar edn-bridge-chat-rebuild-functions nil
  "Abnormal hook run in a chat buffer whose transcript is built again.
It was emptied; the functions are called with the data that will be
shown, which has `:messages' and perhaps `:tool-calls'.")

(defvar edn-bridge-chat-rebuilt-hook nil
  "Normal hook run in a chat buffer whose transcript was built again.")

;;;; State of a chat buffer

(defvar-local edn-bridge-chat--conn nil
  "The buffer's connection, or nil.")

(defvar-local edn-bridge-chat--session-id nil
  "Id of the session that the buffer shows, kept when disconnected.")

(defvar-local edn-bridge-chat--session nil
  "What is known of the session, the data of `session/updated'.")

(defvar-local edn-bridge-chat--footer nil
  "Lines of the footer.")

(defvar-local edn-bridge-chat--statuses nil
  "Lines above the footer: an alist of a symbol and a list of strings.")

(defvar-local edn-bridge-chat--stream nil
  "The message that is streaming in, an `edn-bridge-chat--stream', or nil.")

(defvar-local edn-bridge-chat--deltas nil
  "Texts that came and are not shown yet, last first.")

(defvar-local edn-bridge-chat--delta-kind nil
  "What the texts in `edn-bridge-chat--deltas' are: `text' or `thinking'.")

(defvar-local edn-bridge-chat--echoes nil
  "Texts that the user sent and that are shown, but not yet confirmed.")

(defvar-local edn-bridge-chat--last-prompt nil
  "The text that began the last turn.")

(defvar-local edn-bridge-chat--cut nil
  "Non-nil if the connection was lost while a turn was running.")

(defvar-local edn-bridge-chat--oldest nil
  "Id of the oldest message shown.")

(defvar-local edn-bridge-chat-images nil
  "Images that go with the next message, last first.
Each is a property list of `:mime-type' and `:data', in base64.")

(defvar-local edn-bridge-chat--history nil
  "Ring of the texts sent.")

(defvar-local edn-bridge-chat--history-index nil
  "Place in the history that the draft came from, or nil.")

(cl-defstruct (edn-bridge-chat--stream (:copier nil))
  "A message that is streaming in."
  kind                       ; `text' or `thinking'
  start                      ; marker where its text starts
  texts                      ; what came, last first
  markdown)                  ; state of the faces, for `text'

;;;; Registering

(defvar edn-bridge-chat--handlers (make-hash-table :test #'equal)
  "Lists of functions by topic.")

(defvar edn-bridge-chat--block-handlers (make-hash-table :test #'eq)
  "Functions by type of content block.")

(defun edn-bridge-chat-handle (topic function)
  "Call FUNCTION with the data of each event of TOPIC, in its chat buffer.
Functions are called in the order in which they are registered."
  (let ((functions (gethash topic edn-bridge-chat--handlers)))
    (unless (memq function functions)
      (puthash topic (append functions (list function))
               edn-bridge-chat--handlers))))

(defun edn-bridge-chat-handle-block (type function)
  "Call FUNCTION to show content blocks of TYPE, a keyword.
It is called at the end of the transcript, which it may add to, with the
block and the message that has it."
  (puthash type function edn-bridge-chat--block-handlers))

;;;; The mode

(defvar edn-bridge-chat-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "C-c RET") #'edn-bridge-chat-send)
    (define-key map (kbd "C-c C-q") #'edn-bridge-chat-queue)
    (define-key map (kbd "C-c C-k") #'edn-bridge-chat-abort)
    (define-key map (kbd "C-c C-i") #'edn-bridge-chat-interrupt)
    (define-key map (kbd "C-c C-r") #'edn-bridge-chat-reconnect)
    (define-key map (kbd "M-p") #'edn-bridge-chat-previous-input)
    (define-key map (kbd "M-n") #'edn-bridge-chat-next-input)
    (define-key map (kbd "M-r") #'edn-bridge-chat-search-input)
    (define-key map (kbd "TAB") #'completion-at-point)
    map)
  "Keymap of `edn-bridge-chat-mode'.")

(define-derived-mode edn-bridge-chat-mode nil "Chat"
  "Major mode of a chat with a session of a coding agent.
The transcript is above, the draft below the line.  \\<edn-bridge-chat-mode-map>\\[edn-bridge-chat-send] sends the draft.

\\{edn-bridge-chat-mode-map}"
  :group 'edn-bridge
  (setq-local truncate-lines nil
              word-wrap t
              scroll-conservatively 101
              header-line-format '(:eval (edn-bridge-chat--header-line))
              edn-bridge-chat--history (make-ring 200)
              bidi-paragraph-direction nil)
  (buffer-enable-undo)
  (add-hook 'kill-buffer-hook #'edn-bridge-chat--on-kill nil t)
  (edn-bridge-transcript-setup)
  (goto-char (point-max)))

(defun edn-bridge-chat--on-kill ()
  "End the connection of a chat buffer that is being killed."
  (when edn-bridge-chat--conn
    (edn-bridge-rpc-close edn-bridge-chat--conn "chat buffer killed")
    (edn-bridge-rpc-forget edn-bridge-chat--conn)))

(defun edn-bridge-chat-buffer-p (buffer)
  "Return non-nil if BUFFER is a chat buffer."
  (and (buffer-live-p buffer)
       (eq (buffer-local-value 'major-mode buffer) 'edn-bridge-chat-mode)))

(defun edn-bridge-chat-buffers (&optional directory)
  "Return the chat buffers, the most recent first; with DIRECTORY, of it only."
  (seq-filter (lambda (buffer)
                (and (edn-bridge-chat-buffer-p buffer)
                     (or (not directory)
                         (equal (buffer-local-value 'default-directory buffer)
                                directory))))
              (buffer-list)))

(defun edn-bridge-chat-current ()
  "Return the connection of the current chat buffer, which must be open."
  (unless (derived-mode-p 'edn-bridge-chat-mode)
    (user-error "This is not a chat buffer"))
  (unless (edn-bridge-rpc-live-p edn-bridge-chat--conn)
    (user-error "Not connected; %s connects again"
                (substitute-command-keys "\\[edn-bridge-chat-reconnect]")))
  edn-bridge-chat--conn)

;;;; Header line and footer

(defun edn-bridge-chat-get (key)
  "Return what is known of the session under KEY of `session/updated'."
  (plist-get edn-bridge-chat--session key))

(defun edn-bridge-chat-running-p ()
  "Return non-nil if a turn is running in the current chat buffer."
  (and (edn-bridge-rpc-live-p edn-bridge-chat--conn)
       (edn-bridge-edn-true-p (edn-bridge-chat-get :is-streaming))))

(defun edn-bridge-chat-run-state ()
  "Return in a word or two what the session is doing."
  (let ((retry (edn-bridge-chat-get :retry-attempt))
        (pending (edn-bridge-chat-get :pending-message-count)))
    (concat
     (cond
      ((and (edn-bridge-chat-running-p)
            (integerp retry) (> retry 0)
            (edn-bridge-chat-get :retry))
       (format "retry %d" retry))
      ((edn-bridge-edn-true-p (edn-bridge-chat-get :is-compacting))
       "compacting")
      ((edn-bridge-chat-running-p)
       (let ((phase (edn-bridge-chat-word (edn-bridge-chat-get :phase))))
         (if (member phase '(nil "idle")) "running" phase)))
      (t "idle"))
     (if (and (integerp pending) (> pending 0))
         (format " +%d" pending)
       ""))))

(defun edn-bridge-chat-word (value)
  "Return VALUE, a keyword, a symbol or a string, as a string, or nil."
  (cond ((null value) nil)
        ((keywordp value) (substring (symbol-name value) 1))
        (t (format "%s" value))))

(defun edn-bridge-chat--header-line ()
  "Return the header line of a chat buffer."
  (let ((conn edn-bridge-chat--conn))
    (string-join
     (delq nil
           (list
            (cond ((edn-bridge-rpc-ready-p conn) " ready")
                  ((edn-bridge-rpc-live-p conn) " connecting")
                  (t (propertize " disconnected" 'face 'edn-bridge-chat-error)))
            (and (edn-bridge-rpc-ready-p conn)
                 (propertize (edn-bridge-chat-run-state)
                             'face (if (edn-bridge-chat-running-p)
                                       'mode-line-emphasis
                                     'default)))
            (edn-bridge-chat--escape (edn-bridge-chat--model))
            (edn-bridge-chat--escape
             (edn-bridge-chat-word (edn-bridge-chat-get :mode)))
            (edn-bridge-chat--escape
             (or (edn-bridge-chat-get :session-display-name)
                 (edn-bridge-chat-get :session-name)))))
     (propertize " · " 'face 'shadow))))

(defun edn-bridge-chat--escape (text)
  "Return TEXT, or nil, so that a mode line shows it as it is."
  (and (stringp text)
       (not (equal text ""))
       (replace-regexp-in-string "%" "%%" text)))

(defun edn-bridge-chat--model ()
  "Return what the header line says about the model, or nil."
  (let ((label (edn-bridge-chat-get :header-model-label))
        (id (edn-bridge-chat-get :model-id))
        (level (edn-bridge-chat-word (edn-bridge-chat-get :thinking-level))))
    (or label
        (and id (if (member level '(nil "off"))
                    id
                  (format "%s (%s)" id level))))))

(defun edn-bridge-chat--on-footer (data)
  "Show DATA of `footer/updated'."
  (when (edn-bridge-chat-mine-p data)
    (setq edn-bridge-chat--footer
          (seq-filter (lambda (line)
                        (and (stringp line) (not (equal line ""))))
                      (list (plist-get data :path-line)
                            (plist-get data :stats-line)
                            (plist-get data :status-line))))
    (edn-bridge-chat--show-footer)))

(defun edn-bridge-chat-set-status (key lines)
  "Show LINES, a list of strings, above the footer.
They replace those that were set under KEY, a symbol, before."
  (setf (alist-get key edn-bridge-chat--statuses nil t) lines)
  (edn-bridge-chat--show-footer))

(defun edn-bridge-chat--show-footer ()
  "Show the footer and what stands above it."
  (edn-bridge-transcript-set-footer
   (append (mapcan (lambda (entry) (copy-sequence (cdr entry)))
                   (copy-sequence edn-bridge-chat--statuses))
           edn-bridge-chat--footer)))

;;;; Connecting

(defun edn-bridge-chat-connect ()
  "Start a bridge for the current chat buffer."
  (when edn-bridge-chat--conn
    (edn-bridge-rpc-forget edn-bridge-chat--conn))
  (condition-case err
      (setq edn-bridge-chat--conn
            (edn-bridge-rpc-connect
             :name (string-trim (buffer-name) "\\*" "\\*")
             :command `(,edn-bridge-program "serve" ,@edn-bridge-program-args)
             :directory default-directory
             :features '("interactor" "flow-credit")
             :context (current-buffer)
             :on-ready #'edn-bridge-chat--on-ready
             :on-event #'edn-bridge-chat--on-event
             :on-batch #'edn-bridge-chat--on-batch
             :on-close #'edn-bridge-chat--on-close))
    (file-missing
     (edn-bridge-chat-notice
      (format "The program %s was not found (%s).  Set `edn-bridge-program', then connect again."
              edn-bridge-program (error-message-string err))
      'edn-bridge-chat-error
      (list "Connect" #'edn-bridge-chat-reconnect))))
  (force-mode-line-update))

(defun edn-bridge-chat-reconnect ()
  "Start the bridge of this chat buffer again, with the same session.
The draft is kept.  The transcript is built again from the journal."
  (interactive nil edn-bridge-chat-mode)
  (let ((old edn-bridge-chat--conn))
    (setq edn-bridge-chat--cut (or edn-bridge-chat--cut
                                   (edn-bridge-chat-running-p)))
    (when (edn-bridge-rpc-live-p old)
      (setf (edn-bridge-rpc-connection-on-close old) #'ignore)
      (edn-bridge-rpc-close old "connecting again"))
    (setq edn-bridge-chat--deltas nil)
    (edn-bridge-chat-connect)))

(defmacro edn-bridge-chat-with-buffer (conn &rest body)
  "Run BODY in the chat buffer of CONN, if it is live and CONN is its own."
  (declare (indent 1) (debug t))
  `(let ((buffer (edn-bridge-rpc-connection-context ,conn)))
     (when (buffer-live-p buffer)
       (with-current-buffer buffer
         (when (or (null edn-bridge-chat--conn)
                   (eq ,conn edn-bridge-chat--conn))
           ,@body)))))

(defun edn-bridge-chat-turn-to (session-id)
  "Turn to the session SESSION-ID, on which the connection now is.
Its messages follow, by `session/rehydrated'."
  (setq edn-bridge-chat--session-id session-id
        edn-bridge-chat--last-prompt nil
        edn-bridge-chat--cut nil))

(defun edn-bridge-chat--on-ready (conn)
  "Subscribe on CONN, whose handshake is done, and show its session."
  (edn-bridge-chat-with-buffer conn
    (let ((wanted edn-bridge-chat--session-id)
          (server (edn-bridge-rpc-connection-server conn)))
      (unless wanted
        (setq edn-bridge-chat--session-id (plist-get server :session-id)))
      (edn-bridge-rpc-request
       conn "subscribe" (list :topics (edn-bridge-chat--topics conn))
       :on-success #'ignore)
      (if (and wanted (not (equal wanted (plist-get server :session-id))))
          (edn-bridge-rpc-request
           conn "switch_session" (list :session-id wanted)
           ;; `session/rehydrated' follows.
           :on-success #'ignore
           :on-error
           (lambda (frame)
             (edn-bridge-chat-with-buffer conn
               (setq edn-bridge-chat--session-id
                     (plist-get server :session-id))
               (edn-bridge-chat-notice
                (format "The session could not be resumed: %s"
                        (plist-get frame :error-message))
                'edn-bridge-chat-error))))
        (edn-bridge-chat--load conn)))
    (force-mode-line-update)))

(defun edn-bridge-chat--topics (conn)
  "Return the topics to subscribe to on CONN.
Dialogs are for bridges that do not ask by interactions."
  (vconcat (if (edn-bridge-rpc-feature-p conn "interactor")
               (remove "ui/dialog-requested" edn-bridge-constants-topics)
             edn-bridge-constants-topics)))

(defun edn-bridge-chat--load (conn)
  "Ask for the newest messages of the session of CONN and show them."
  (edn-bridge-rpc-request
   conn "get_messages" (list :limit edn-bridge-chat-page)
   :on-success
   (lambda (data)
     (edn-bridge-chat-with-buffer conn
       (edn-bridge-chat--flush)
       (edn-bridge-chat--rebuild data)
       (run-hooks 'edn-bridge-chat-ready-hook)))))

(defun edn-bridge-chat--on-close (conn reason)
  "Show in the chat buffer of CONN that the connection ended for REASON."
  (edn-bridge-chat-with-buffer conn
    (edn-bridge-chat--flush)
    (edn-bridge-chat-end-stream)
    (when (edn-bridge-edn-true-p (edn-bridge-chat-get :is-streaming))
      (setq edn-bridge-chat--cut t))
    (setq edn-bridge-chat--session
          (plist-put edn-bridge-chat--session :is-streaming :false))
    (unless (equal reason "closed")
      (let ((errors (edn-bridge-rpc-stderr conn)))
        (edn-bridge-chat-notice
         (concat "Disconnected: " reason
                 (if (equal errors "") "" (concat "\n" errors)))
         'edn-bridge-chat-error
         (list "Connect again" #'edn-bridge-chat-reconnect))))
    (force-mode-line-update)))

;;;; Events

(defun edn-bridge-chat--on-event (conn topic data)
  "Hand DATA of an event of TOPIC on CONN to who registered for it."
  (edn-bridge-chat-with-buffer conn
    (pcase topic
      ("assistant/delta"
       (edn-bridge-chat--on-delta 'text data))
      ("assistant/thinking-delta"
       (edn-bridge-chat--on-delta 'thinking data))
      (_
       (edn-bridge-chat--flush)
       (dolist (function (gethash topic edn-bridge-chat--handlers))
         (funcall function data))))))

(defun edn-bridge-chat--on-batch (conn)
  "Show what came on CONN and is not shown yet."
  (edn-bridge-chat-with-buffer conn
    (edn-bridge-chat--flush)))

(defun edn-bridge-chat-mine-p (data)
  "Return non-nil if DATA of an event concerns the session shown here."
  (let ((id (plist-get data :session-id)))
    (or (null id)
        (null edn-bridge-chat--session-id)
        (equal id edn-bridge-chat--session-id))))

(defun edn-bridge-chat--on-session (data)
  "Take note of DATA of `session/updated'."
  (when (edn-bridge-chat-mine-p data)
    (let ((was-running (edn-bridge-edn-true-p
                        (edn-bridge-chat-get :is-streaming))))
      (setq edn-bridge-chat--session data
            edn-bridge-chat--session-id (or (plist-get data :session-id)
                                            edn-bridge-chat--session-id))
      (when (and was-running (not (edn-bridge-chat-running-p)))
        (edn-bridge-chat-end-stream)
        (run-hooks 'edn-bridge-chat-turn-end-hook)))
    (force-mode-line-update)))

(defun edn-bridge-chat--on-resumed (data)
  "Turn to the session that DATA of `session/resumed' names."
  (setq edn-bridge-chat--session-id (plist-get data :session-id)
        edn-bridge-chat--session nil))

(defun edn-bridge-chat--on-rehydrated (data)
  "Show the messages in DATA of `session/rehydrated'."
  (when (edn-bridge-chat-mine-p data)
    (edn-bridge-chat--rebuild data)
    (run-hooks 'edn-bridge-chat-ready-hook)))

(defun edn-bridge-chat--on-error (data)
  "Show DATA of an `error' event."
  (edn-bridge-chat-notice
   (or (plist-get data :error-message) "Unknown error")
   'edn-bridge-chat-error))

(defun edn-bridge-chat--on-command-result (data)
  "Show DATA of `command-result'."
  (let ((type (edn-bridge-chat-word (plist-get data :type)))
        (text (plist-get data :message)))
    (when (and (stringp text) (not (equal text "")))
      (edn-bridge-chat-notice text
                              (if (equal type "error")
                                  'edn-bridge-chat-error
                                'default)))
    (when (equal type "quit")
      (edn-bridge-rpc-close edn-bridge-chat--conn))))

;;;; Streaming

(defun edn-bridge-chat--on-delta (kind data)
  "Keep the text in DATA, of KIND, until the next flush."
  (when (edn-bridge-chat-mine-p data)
    (unless (eq kind edn-bridge-chat--delta-kind)
      (edn-bridge-chat--flush)
      (setq edn-bridge-chat--delta-kind kind))
    (push (plist-get data :text) edn-bridge-chat--deltas)))

(defun edn-bridge-chat--flush ()
  "Add the texts that came to the transcript, all at once."
  (when edn-bridge-chat--deltas
    (let ((text (apply #'concat (nreverse edn-bridge-chat--deltas))))
      (setq edn-bridge-chat--deltas nil)
      (unless (and (eq edn-bridge-chat--delta-kind 'thinking)
                   (not edn-bridge-chat-show-thinking))
        (edn-bridge-chat--stream-text edn-bridge-chat--delta-kind text)))))

(defun edn-bridge-chat--stream-text (kind text)
  "Add TEXT of KIND to the message that streams in, beginning it if need be."
  (unless (and edn-bridge-chat--stream
               (eq kind (edn-bridge-chat--stream-kind edn-bridge-chat--stream)))
    (edn-bridge-chat-end-stream)
    (edn-bridge-chat--begin-stream kind))
  (let ((stream edn-bridge-chat--stream))
    (push text (edn-bridge-chat--stream-texts stream))
    (edn-bridge-transcript-add
      (let ((start (point)))
        (insert text)
        (let ((end (point)))
          (if (eq kind 'thinking)
              (put-text-property start end 'face 'edn-bridge-chat-thinking)
            (edn-bridge-markdown-feed (edn-bridge-chat--stream-markdown stream)
                                      start end)))))))

(defun edn-bridge-chat--begin-stream (kind)
  "Begin a message of KIND at the end of the transcript."
  (edn-bridge-chat-heading (if (eq kind 'thinking) "Thinking" "Assistant")
                            (if (eq kind 'thinking)
                                'edn-bridge-chat-thinking
                              'edn-bridge-chat-assistant))
  (let ((start (edn-bridge-transcript-end)))
    (setq edn-bridge-chat--stream
          (make-edn-bridge-chat--stream
           :kind kind
           :start (copy-marker start)
           :markdown (and (eq kind 'text)
                          (edn-bridge-markdown-begin start))))))

(defun edn-bridge-chat-end-stream ()
  "End the message that streams in, if there is one."
  (when-let ((stream edn-bridge-chat--stream))
    (setq edn-bridge-chat--stream nil)
    (edn-bridge-transcript-add
      (when (edn-bridge-chat--stream-markdown stream)
        (edn-bridge-markdown-finish (edn-bridge-chat--stream-markdown stream)
                                    (edn-bridge-transcript-end)))
      (goto-char (edn-bridge-transcript-end))
      (edn-bridge-transcript-fresh-line))
    (set-marker (edn-bridge-chat--stream-start stream) nil)))

;;;; Messages

(defun edn-bridge-chat--on-message (data)
  "Show DATA of `assistant/message': complete what streamed in, or add it."
  (when (edn-bridge-chat-mine-p data)
    (if (equal (edn-bridge-chat-word (plist-get data :role)) "user")
        (edn-bridge-chat--on-user-message data)
      (let ((stream edn-bridge-chat--stream)
            (text (edn-bridge-chat-message-text data)))
        (cond
         ((and stream
               (eq (edn-bridge-chat--stream-kind stream) 'text)
               (equal text (apply #'concat
                                  (reverse
                                   (edn-bridge-chat--stream-texts stream)))))
          (edn-bridge-chat-end-stream))
         ((and stream (eq (edn-bridge-chat--stream-kind stream) 'text))
          (edn-bridge-chat--replace-stream stream text))
         (t
          (edn-bridge-chat-end-stream)
          (unless (equal text "")
            (edn-bridge-chat--insert-text "Assistant"
                                          'edn-bridge-chat-assistant
                                          text (plist-get data :entry-id)))))
        (edn-bridge-chat--show-outcome data)))))

(defun edn-bridge-chat--replace-stream (stream text)
  "Put TEXT in the place of what came as STREAM, and end it."
  (let ((start (marker-position (edn-bridge-chat--stream-start stream))))
    (edn-bridge-transcript-add
      (delete-region start (edn-bridge-transcript-end))
      (goto-char (edn-bridge-transcript-end))
      (insert text)
      (edn-bridge-markdown-region start (point)))
    (setf (edn-bridge-chat--stream-markdown stream) nil)
    (edn-bridge-chat-end-stream)))

(defun edn-bridge-chat--show-outcome (message)
  "Show how MESSAGE of the assistant ended, where it did not end well."
  (let ((reason (edn-bridge-chat-word (plist-get message :stop-reason)))
        (failure (plist-get message :error-message)))
    (cond
     ((and (stringp failure) (not (equal failure "")))
      (edn-bridge-chat-notice failure 'edn-bridge-chat-error))
     ((member reason '("aborted" "interrupted"))
      (edn-bridge-chat-notice (concat "(" reason ")"))))))

(defun edn-bridge-chat--on-user-message (data)
  "Show DATA of a user's message, unless it was shown when it was sent."
  (let ((text (edn-bridge-chat-message-text data)))
    (if (member text edn-bridge-chat--echoes)
        (setq edn-bridge-chat--echoes
              (remove text edn-bridge-chat--echoes))
      (edn-bridge-chat-end-stream)
      (edn-bridge-chat--insert-text "You" 'edn-bridge-chat-user text
                                    (plist-get data :entry-id)))))

(defun edn-bridge-chat-message-text (message)
  "Return the text of MESSAGE, its text blocks joined."
  (let ((content (plist-get message :content)))
    (if (stringp content)
        content
      (mapconcat (lambda (block)
                   (if (eq (plist-get block :type) :text)
                       (or (plist-get block :text) "")
                     ""))
                 content ""))))

(defun edn-bridge-chat--rebuild (data)
  "Show the `:messages' in DATA instead of what the transcript shows.
Where `:more' is true there are earlier ones."
  (setq edn-bridge-chat--stream nil
        edn-bridge-chat--deltas nil
        edn-bridge-chat--echoes nil)
  (edn-bridge-transcript-clear)
  (run-hook-with-args 'edn-bridge-chat-rebuild-functions data)
  (let* ((messages (plist-get data :messages))
         (count (length messages))
         (first (max 0 (- count edn-bridge-chat-page))))
    (edn-bridge-chat--insert-messages (substring messages first))
    (when (or (> first 0) (edn-bridge-edn-true-p (plist-get data :more)))
      (edn-bridge-chat--insert-more-button)))
  (when edn-bridge-chat--cut
    (setq edn-bridge-chat--cut nil)
    (edn-bridge-chat--show-cut))
  (run-hooks 'edn-bridge-chat-rebuilt-hook))

(defun edn-bridge-chat--insert-messages (messages)
  "Add MESSAGES, a vector, to the transcript."
  (when (> (length messages) 0)
    (setq edn-bridge-chat--oldest (plist-get (aref messages 0) :id))
    (mapc #'edn-bridge-chat--insert-message messages)))

(defun edn-bridge-chat--insert-message (message)
  "Add MESSAGE to the transcript."
  (pcase (edn-bridge-chat-word (plist-get message :role))
    ("user"
     (edn-bridge-chat--insert-text "You" 'edn-bridge-chat-user
                                   (edn-bridge-chat-message-text message)
                                   (plist-get message :id)))
    ("assistant"
     (edn-bridge-chat--insert-blocks message)
     (edn-bridge-chat--show-outcome message))
    ("tool"
     (when-let ((function (gethash :tool-result
                                   edn-bridge-chat--block-handlers)))
       (funcall function message message)))
    (_
     (let ((text (edn-bridge-chat-message-text message)))
       (unless (equal text "")
         (edn-bridge-chat-notice text))))))

(defun edn-bridge-chat--insert-blocks (message)
  "Add the content blocks of MESSAGE of the assistant to the transcript."
  (let ((content (plist-get message :content)))
    (if (stringp content)
        (edn-bridge-chat--insert-text "Assistant" 'edn-bridge-chat-assistant
                                      content (plist-get message :id))
      (seq-do
       (lambda (block)
         (let ((text (plist-get block :text)))
           (pcase (plist-get block :type)
             (:text
              (unless (equal text "")
                (edn-bridge-chat--insert-text
                 "Assistant" 'edn-bridge-chat-assistant
                 text (plist-get message :id))))
             (:thinking
              (when edn-bridge-chat-show-thinking
                (edn-bridge-chat--insert-thinking text)))
             (type
              (when-let ((function (gethash type
                                            edn-bridge-chat--block-handlers)))
                (funcall function block message))))))
       content))))

(defun edn-bridge-chat-heading (title face)
  "Begin a message with TITLE in FACE at the end of the transcript."
  (edn-bridge-transcript-add
    (edn-bridge-transcript-fresh-line 'blank)
    (insert (propertize title 'face face) "\n")))

(defun edn-bridge-chat--insert-text (title face text entry)
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

(defun edn-bridge-chat--insert-thinking (text)
  "Add TEXT that the model thought to the transcript."
  (edn-bridge-chat-heading "Thinking" 'edn-bridge-chat-thinking)
  (edn-bridge-transcript-add
    (insert (propertize text 'face 'edn-bridge-chat-thinking))
    (edn-bridge-transcript-fresh-line)))

(defun edn-bridge-chat-notice (text &optional face &rest buttons)
  "Add TEXT in FACE (default: `edn-bridge-chat-notice') to the transcript.
BUTTONS are lists of a label and a command, shown after it."
  (edn-bridge-chat-end-stream)
  (edn-bridge-transcript-add
    (edn-bridge-transcript-fresh-line 'blank)
    (insert (propertize text 'face (or face 'edn-bridge-chat-notice)))
    (pcase-dolist (`(,label ,command) buttons)
      (insert " ")
      (edn-bridge-chat-insert-button label command))
    (edn-bridge-transcript-fresh-line)))

(defun edn-bridge-chat-insert-button (label command)
  "Insert a button with LABEL that calls COMMAND interactively."
  (insert-text-button (concat "[" label "]")
                      'follow-link t
                      'help-echo (format "mouse-1, RET: %s" label)
                      'action (lambda (_button)
                                (call-interactively command))))

;;;; Earlier messages

(defun edn-bridge-chat--insert-more-button ()
  "Put a button for earlier messages at the top of the transcript."
  (edn-bridge-transcript-at-top
    (edn-bridge-transcript-add
      (edn-bridge-chat-insert-button "Earlier messages"
                                     #'edn-bridge-chat-show-earlier)
      (insert "\n"))))

(defun edn-bridge-chat-show-earlier ()
  "Show earlier messages above those that are shown."
  (interactive nil edn-bridge-chat-mode)
  (let ((conn (edn-bridge-chat-current)))
    (edn-bridge-rpc-request
     conn "get_messages" (list :before edn-bridge-chat--oldest
                               :limit edn-bridge-chat-page)
     :on-success
     (lambda (data)
       (edn-bridge-chat-with-buffer conn
         (edn-bridge-transcript-edit
           (delete-region (point-min)
                          (progn (goto-char (point-min))
                                 (line-beginning-position 2))))
         (edn-bridge-transcript-at-top
           (edn-bridge-chat--insert-messages (plist-get data :messages)))
         (when (edn-bridge-edn-true-p (plist-get data :more))
           (edn-bridge-chat--insert-more-button)))))))

;;;; Sending

(defconst edn-bridge-chat--command-regexp "\\`/[a-z?][a-z-]*\\(?:[ \t\n]\\|\\'\\)"
  "Matches a draft that is a slash command.")

(defun edn-bridge-chat-send ()
  "Send the region where it is active, else the draft.
While a turn is running the text steers it: the model sees it after the
running tool call."
  (interactive nil edn-bridge-chat-mode)
  (edn-bridge-chat--send-input "steer"))

(defun edn-bridge-chat-queue ()
  "Queue the region where it is active, else the draft, for after the turn."
  (interactive nil edn-bridge-chat-mode)
  (edn-bridge-chat--send-input "queue"))

(defun edn-bridge-chat--send-input (behavior)
  "Send the region or the draft; with BEHAVIOR while a turn is running."
  (edn-bridge-chat-current)
  (let* ((region (use-region-p))
         (text (string-trim
                (if region
                    (buffer-substring-no-properties (region-beginning)
                                                    (region-end))
                  (edn-bridge-transcript-draft)))))
    (when (equal text "")
      (user-error "There is nothing to send"))
    (if region
        (deactivate-mark)
      (edn-bridge-transcript-reset-draft))
    (edn-bridge-chat--remember-input text)
    (edn-bridge-chat-send-text text behavior (not region))))

(defun edn-bridge-chat-send-text (text &optional behavior draft)
  "Send TEXT: a slash command, or what the model is to see.
BEHAVIOR is \"steer\" or \"queue\", what becomes of it while a turn is
running.  With DRAFT non-nil, TEXT is put back where it is refused."
  (let* ((conn (edn-bridge-chat-current))
         (case-fold-search nil)
         (command (string-match-p edn-bridge-chat--command-regexp text))
         (images (and (not command)
                      (prog1 (vconcat (reverse edn-bridge-chat-images))
                        (setq edn-bridge-chat-images nil))))
         (running (edn-bridge-chat-running-p)))
    (edn-bridge-chat--flush)
    (edn-bridge-chat--echo text (and running (not command) behavior))
    (unless command
      (push text edn-bridge-chat--echoes)
      (unless running
        (setq edn-bridge-chat--last-prompt text)))
    (edn-bridge-rpc-request
     conn
     ;; The bridge starts a turn for what it cannot add to one, so that a
     ;; turn which ends meanwhile does no harm.
     (cond (command "command")
           ((not running) "prompt")
           ((equal behavior "queue") "follow_up")
           (t "steer"))
     (append (list (if command :text :message) text)
             (and (> (length images) 0) (list :images images)))
     :on-success #'ignore
     :on-error
     (lambda (frame)
       (edn-bridge-chat-with-buffer conn
         (setq edn-bridge-chat--echoes (remove text edn-bridge-chat--echoes))
         (when (edn-bridge-rpc-live-p conn)
           (edn-bridge-chat-notice (edn-bridge-chat--failure frame)
                                   'edn-bridge-chat-error))
         (when (and draft (equal (edn-bridge-transcript-draft) ""))
           (edn-bridge-transcript-set-draft text)))))))

(defun edn-bridge-chat--failure (frame)
  "Return what to tell the user about the error FRAME."
  (let ((nearest (append (plist-get (plist-get frame :data) :nearest) nil)))
    (concat (plist-get frame :error-message)
            (if nearest
                (format "  Did you mean %s?"
                        (mapconcat #'edn-bridge-chat-word nearest ", "))
              ""))))

(defun edn-bridge-chat--echo (text behavior)
  "Show TEXT as sent by the user, with BEHAVIOR where it is not nil."
  (edn-bridge-chat-end-stream)
  (edn-bridge-chat--insert-text (if behavior (format "You (%s)" behavior) "You")
                                'edn-bridge-chat-user text nil)
  ;; Whoever sends wants to see what comes.
  (dolist (window (get-buffer-window-list nil nil t))
    (set-window-point window (point-max))))

(defun edn-bridge-chat-abort ()
  "Abort the turn that is running."
  (interactive nil edn-bridge-chat-mode)
  (edn-bridge-rpc-request (edn-bridge-chat-current) "abort" nil
                          :on-success #'ignore))

(defun edn-bridge-chat-interrupt ()
  "End the turn after the tool call that is running.
Steering text that the model did not see comes back as the draft."
  (interactive nil edn-bridge-chat-mode)
  (let ((conn (edn-bridge-chat-current)))
    (edn-bridge-rpc-request
     conn "interrupt" nil
     :on-success
     (lambda (data)
       (let ((text (plist-get data :dropped-steering-text)))
         (edn-bridge-chat-with-buffer conn
           (when (and (stringp text) (not (equal text ""))
                      (equal (edn-bridge-transcript-draft) ""))
             (edn-bridge-transcript-set-draft text))))))))

(defun edn-bridge-chat--show-cut ()
  "Show that the last turn was cut, with a button that sends it again."
  (let ((prompt edn-bridge-chat--last-prompt))
    (edn-bridge-chat-notice
     "The connection was lost while the last turn was running."
     'edn-bridge-chat-error
     (list "Send again"
           (lambda ()
             (interactive)
             (if prompt
                 (edn-bridge-chat-send-text prompt)
               (user-error "There is nothing to send again")))))))

;;;; History

(defun edn-bridge-chat--remember-input (text)
  "Add TEXT to the history."
  (setq edn-bridge-chat--history-index nil)
  (unless (and (not (ring-empty-p edn-bridge-chat--history))
               (equal text (ring-ref edn-bridge-chat--history 0)))
    (ring-insert edn-bridge-chat--history text)))

(defun edn-bridge-chat-previous-input (count)
  "Make the draft what was sent COUNT inputs before."
  (interactive "p" edn-bridge-chat-mode)
  (when (ring-empty-p edn-bridge-chat--history)
    (user-error "Nothing was sent yet"))
  (let ((index (+ (or edn-bridge-chat--history-index -1) count)))
    (cond
     ((< index 0)
      (setq edn-bridge-chat--history-index nil)
      (edn-bridge-transcript-set-draft ""))
     ((>= index (ring-length edn-bridge-chat--history))
      (user-error "This is the first input"))
     (t
      (setq edn-bridge-chat--history-index index)
      (edn-bridge-transcript-set-draft
       (ring-ref edn-bridge-chat--history index))))))

(defun edn-bridge-chat-next-input (count)
  "Make the draft what was sent COUNT inputs later."
  (interactive "p" edn-bridge-chat-mode)
  (edn-bridge-chat-previous-input (- count)))

(defun edn-bridge-chat-search-input (text)
  "Make TEXT, read with completion from what was sent, the draft."
  (interactive
   (list (completing-read "Input: "
                          (ring-elements edn-bridge-chat--history) nil t))
   edn-bridge-chat-mode)
  (edn-bridge-transcript-set-draft text))

;;;; Handlers

(edn-bridge-chat-handle "session/updated" #'edn-bridge-chat--on-session)
(edn-bridge-chat-handle "session/resumed" #'edn-bridge-chat--on-resumed)
(edn-bridge-chat-handle "session/rehydrated" #'edn-bridge-chat--on-rehydrated)
(edn-bridge-chat-handle "assistant/message" #'edn-bridge-chat--on-message)
(edn-bridge-chat-handle "footer/updated" #'edn-bridge-chat--on-footer)
(edn-bridge-chat-handle "command-result" #'edn-bridge-chat--on-command-result)
(edn-bridge-chat-handle "error" #'edn-bridge-chat--on-error)

(provide 'edn-bridge-chat)

;;; edn-bridge-chat.el ends here
