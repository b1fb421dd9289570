;;; edn-bridge-chat.el --- The chat buffer  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; A buffer that talks with one session over one connection.  This file
;; has the buffer and its connection.  What is known of the session is in
;; edn-bridge-chat-state.el, and what stands around the transcript in
;; edn-bridge-chat-header.el.
;;
;; What is to be shown (messages, tool calls, questions, notifications) and
;; what can be said is the business of other files, which register for it.

;;; Code:

(require 'cl-lib)
(require 'iso8601)
(require 'subr-x)
(require 'text-property-search)
(require 'edn-bridge-edn)
(require 'edn-bridge-rpc)
(require 'edn-bridge-program)
(require 'edn-bridge-settings)
(require 'edn-bridge-transcript)
(require 'edn-bridge-chat-state)
(require 'edn-bridge-chat-place)
(require 'edn-bridge-chat-header)

;;;; Options

(defcustom edn-bridge-chat-page 100
  "How many messages of a session are shown at once when it is opened.
Earlier ones are shown on demand, as many at a time."
  :type 'natnum
  :group 'edn-bridge)

(defvar edn-bridge-chat-ready-hook nil
  "Normal hook run in a chat buffer when its session is connected and shown.")

(defvar edn-bridge-chat-turn-begin-hook nil
  "Normal hook run in a chat buffer when its session begins to work.")

(defvar edn-bridge-chat-turn-end-hook nil
  "Normal hook run in a chat buffer when a turn has ended.")

(defvar edn-bridge-chat-rebuild-functions nil
  "Abnormal hook run in a chat buffer whose transcript is built again.
It was emptied; the functions are called with the data that will be
shown, which has `:messages' and perhaps `:tool-calls'.")

(defvar edn-bridge-chat-settle-functions nil
  "Abnormal hook that shows what was collected of events.
The functions are called in a chat buffer, with non-nil where what streams
in is at its end.")

(defvar edn-bridge-chat-rebuilt-hook nil
  "Normal hook run in a chat buffer whose transcript was built again.")

(defvar edn-bridge-chat--in-answer-function #'ignore
  "Function that returns how much is shown of an answer that is not complete.
Its value is that of `:at' in what `subscribe' is told, or nil.")

(defvar edn-bridge-chat-followed-hook nil
  "Normal hook run in a chat buffer that was told all that it missed.
Its transcript was not built again.")

;;;; The mode

(defvar edn-bridge-chat-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "C-c C-r") #'edn-bridge-chat-reconnect)
    (define-key map (kbd "TAB") #'edn-bridge-chat-complete-or-next)
    (define-key map (kbd "C-c <up>") #'edn-bridge-chat-previous-message)
    (define-key map (kbd "C-c <down>") #'edn-bridge-chat-next-message)
    map)
  "Keymap of `edn-bridge-chat-mode'.")

(define-derived-mode edn-bridge-chat-mode nil "Chat"
  "Major mode of a chat with a session of a coding agent.
The transcript is above, the draft below the line.
\\<edn-bridge-chat-mode-map>\\[edn-bridge-input-send] sends the draft.

\\{edn-bridge-chat-mode-map}"
  :group 'edn-bridge
  ;; It erases the buffer.
  :interactive nil
  (setq-local truncate-lines nil
              ;; The chat has other windows next to it: its lines are wrapped
              ;; however narrow it is, between Chinese characters too, and
              ;; without an arrow for each.
              truncate-partial-width-windows nil
              word-wrap t
              word-wrap-by-category t
              fringe-indicator-alist (cons '(continuation nil nil)
                                           fringe-indicator-alist)
              scroll-conservatively 101
              ;; Nobody saves a draft to a file.
              mode-line-modified ""
              header-line-format '(:eval (edn-bridge-chat--header-line))
              ;; Every line has its own direction: a heading in English
              ;; must not decide how the Hebrew below it is laid out.
              bidi-paragraph-direction nil
              bidi-paragraph-start-re "^"
              bidi-paragraph-separate-re "^")
  (edn-bridge-visible-setup)
  (edn-bridge-faces-setup)
  (buffer-enable-undo)
  (add-hook 'pre-command-hook #'edn-bridge-chat--type-in-draft nil t)
  (add-hook 'window-size-change-functions
            #'edn-bridge-transcript-fill-windows nil t)
  (edn-bridge-transcript-follow-width)
  (add-hook 'kill-buffer-query-functions
            #'edn-bridge-chat--confirm-kill nil t)
  (add-hook 'kill-buffer-hook #'edn-bridge-chat--on-kill nil t)
  ;; The only hook that is not of the chat's own buffer; it is there from
  ;; the first chat on.
  (add-hook 'kill-emacs-query-functions #'edn-bridge-chat--confirm-exit)
  (edn-bridge-transcript-setup)
  (edn-bridge-chat--set-evil-state)
  (goto-char (point-max)))

(declare-function evil-initial-state "ext:evil-core")
(declare-function evil-set-initial-state "ext:evil-core")

(defun edn-bridge-chat--set-evil-state ()
  "Have chats begin in Evil's insert state, where one writes the draft.
Not where the user has chosen another state for them."
  (when (and (fboundp 'evil-set-initial-state)
             (not (evil-initial-state 'edn-bridge-chat-mode)))
    (evil-set-initial-state 'edn-bridge-chat-mode 'insert)))

(defun edn-bridge-chat-complete-or-next ()
  "Complete what is before point in the draft; above it, go to the next button."
  (interactive nil edn-bridge-chat-mode)
  (if (edn-bridge-transcript-in-draft-p)
      (completion-at-point)
    (forward-button 1 t)))

(defun edn-bridge-chat-previous-button ()
  "Go to the button before point."
  (backward-button 1 t))

(defun edn-bridge-chat-previous-message (count)
  "Go to the COUNTth message before point."
  (interactive "p" edn-bridge-chat-mode)
  (edn-bridge-chat-next-message (- count)))

(defun edn-bridge-chat-next-message (count)
  "Go to the COUNTth message after point, and behind the last to the draft."
  (interactive "p" edn-bridge-chat-mode)
  (dotimes (_ (abs count))
    (let ((match (if (> count 0)
                     (text-property-search-forward 'edn-bridge-heading
                                                   nil nil t)
                   (text-property-search-backward 'edn-bridge-heading
                                                  nil nil))))
      (cond (match (goto-char (prop-match-beginning match)))
            ((> count 0) (goto-char (point-max)))
            (t (goto-char (point-min)))))))

(defun edn-bridge-chat--type-in-draft ()
  "Have what is typed above the draft come into the draft.
The keys of questions, buttons and tool calls are other commands."
  (when (and (memq this-command '(self-insert-command yank yank-pop))
             (not (edn-bridge-transcript-in-draft-p)))
    (goto-char (point-max))))

(defun edn-bridge-chat--goes-on-p ()
  "Return non-nil if the turn of this chat goes on without Emacs."
  (and edn-bridge-chat--outlives (edn-bridge-chat-running-p)))

(defun edn-bridge-chat--confirm-kill ()
  "Return non-nil if the current chat buffer may be killed."
  (cond
   ((edn-bridge-chat--goes-on-p)
    (message "The turn goes on; M-x edn-bridge in this project offers it")
    t)
   (t
    (or noninteractive
        (not (edn-bridge-chat-running-p))
        (yes-or-no-p "A turn is running in this chat; kill it? ")))))

(defun edn-bridge-chat--confirm-exit ()
  "Return non-nil if Emacs may end: no turn ends with it, or the user agrees."
  (let* ((running (seq-filter (lambda (buffer)
                                (with-current-buffer buffer
                                  (edn-bridge-chat-running-p)))
                              (edn-bridge-chat-buffers)))
         (ending (seq-remove (lambda (buffer)
                               (with-current-buffer buffer
                                 (edn-bridge-chat--goes-on-p)))
                             running)))
    (cond
     ((and running (null ending))
      (message "%s; M-x edn-bridge in the project offers what runs"
               (if (cdr running)
                   (format "The turns of %d chats go on" (length running))
                 "The turn goes on"))
      t)
     ((or noninteractive (null ending)))
     (t
      (yes-or-no-p (if (cdr ending)
                       (format "Turns are running in %d chats; end Emacs and them? "
                               (length ending))
                     "A turn is running in a chat; end Emacs and it? "))))))

(defun edn-bridge-chat--on-kill ()
  "End the connection of a chat buffer that is being killed."
  (when edn-bridge-chat--clock
    (cancel-timer edn-bridge-chat--clock))
  (edn-bridge-chat--return-no-more)
  (when edn-bridge-chat--conn
    (edn-bridge-rpc-close edn-bridge-chat--conn "chat buffer killed")
    (edn-bridge-rpc-forget edn-bridge-chat--conn)))

(defun edn-bridge-chat-open (directory &optional setup)
  "Return a new chat buffer of DIRECTORY, which is connecting.
SETUP, where it is not nil, is called in it before that."
  (let ((buffer (generate-new-buffer
                 (format "*edn-bridge: %s*"
                         (file-name-nondirectory
                          (directory-file-name directory))))))
    (with-current-buffer buffer
      (setq default-directory directory)
      (edn-bridge-chat-mode)
      (edn-bridge-settings-read)
      (when setup
        (funcall setup))
      (edn-bridge-chat-connect))
    buffer))

(defun edn-bridge-chat-unused-p ()
  "Return non-nil if nothing was said in this chat; questions may be asked."
  (not (text-property-not-all (point-min) (edn-bridge-transcript-end)
                              'edn-bridge-heading nil)))

(defun edn-bridge-chat-time (text)
  "Return the time TEXT, in the form of ISO 8601, for people, or nil."
  (and (stringp text)
       (condition-case nil
           (format-time-string "%F %R" (encode-time (iso8601-parse text)))
         (error text))))

(defun edn-bridge-chat-buffer-p (buffer)
  "Return non-nil if BUFFER is a chat buffer."
  (and (buffer-live-p buffer)
       (eq (buffer-local-value 'major-mode buffer) 'edn-bridge-chat-mode)))

(defun edn-bridge-chat-name ()
  "Return what this chat is called: its buffer's name without the asterisks."
  (string-trim (buffer-name) "\\*" "\\*"))

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
    (user-error "Not connected; %s reconnects"
                (edn-bridge-faces-keys "\\[edn-bridge-chat-reconnect]")))
  edn-bridge-chat--conn)

(defun edn-bridge-chat-refused (frame)
  "Tell in the echo area why the bridge refused what FRAME answers."
  (message "%s" (edn-bridge-visible-label
                 (or (plist-get frame :error-message) "That was refused"))))

(defun edn-bridge-chat-ask-for (chat op params show)
  "Send OP with PARAMS as CHAT, and call SHOW with the answer in this buffer."
  (let ((buffer (current-buffer)))
    (unless (buffer-live-p chat)
      (user-error "The chat is gone"))
    (with-current-buffer chat
      (edn-bridge-rpc-request
       (edn-bridge-chat-current) op params
       :on-success (lambda (data)
                     (when (buffer-live-p buffer)
                       (with-current-buffer buffer
                         (funcall show data))))
       :on-error #'edn-bridge-chat-refused))))

;;;; Adding to the transcript

(defun edn-bridge-chat-heading (title face &optional kind)
  "Begin a message with TITLE in FACE at the end of the transcript.
KIND, where it is not nil, is the value of `edn-bridge-heading' on it."
  (edn-bridge-transcript-add
    (edn-bridge-chat-insert-heading title face kind)))

(defun edn-bridge-chat-insert-heading (title face &optional kind)
  "Insert what `edn-bridge-chat-heading' adds, with TITLE, FACE and KIND."
  (edn-bridge-transcript-fresh-line 'blank)
  (insert (propertize title 'face face 'edn-bridge-heading (or kind t))
          "\n"))

(defun edn-bridge-chat-insert-answer-heading ()
  "Insert the heading of the assistant, unless the turn has it already.
That is once, above the first text or call of a turn."
  (edn-bridge-transcript-fresh-line 'blank)
  (unless (edn-bridge-chat-answer-headed-p)
    (insert (propertize "Assistant" 'face 'edn-bridge-messages-assistant
                        'edn-bridge-heading 'assistant)
            "\n")))

(defun edn-bridge-chat-answer-headed-p ()
  "Return non-nil if the turn above point has the heading of the assistant.
What the user said begins a turn; headings of thinking tell nothing."
  (let ((place (point))
        (kind t))
    (while (and (memq kind '(nil t))
                (> place (point-min)))
      (setq place (previous-single-property-change place 'edn-bridge-heading
                                                   nil (point-min))
            kind (get-text-property place 'edn-bridge-heading)))
    (eq kind 'assistant)))

(defun edn-bridge-chat-notice (text &optional face &rest buttons)
  "Add TEXT in FACE (default: `edn-bridge-chat-notice') to the transcript.
BUTTONS are lists of a label and a command, shown after it.  It stands
below an answer that is streaming in."
  (edn-bridge-chat-settle)
  (edn-bridge-transcript-add
    (edn-bridge-transcript-fresh-line 'blank)
    (let ((text (edn-bridge-visible-break text 0)))
      (add-face-text-property 0 (length text)
                              (or face 'edn-bridge-chat-notice) t text)
      (insert text))
    (pcase-dolist (`(,label ,command) buttons)
      (insert " ")
      (edn-bridge-chat-insert-button label command))
    (edn-bridge-transcript-fresh-line)))

(defun edn-bridge-chat-insert-button (label command)
  "Insert a button with LABEL that calls COMMAND interactively."
  (insert-text-button (concat "[" label "]")
                      'face 'edn-bridge-button 'follow-link t
                      'help-echo (format "mouse-1, RET: %s" label)
                      'action (lambda (_button)
                                (call-interactively command))))

;;;; Connecting

(defvar-local edn-bridge-chat-environment nil
  "Variables that this chat's program gets besides those of Emacs.
An alist of names and values.")

(defun edn-bridge-chat-connect ()
  "Start a bridge for the current chat buffer."
  (when edn-bridge-chat--conn
    (edn-bridge-rpc-forget edn-bridge-chat--conn))
  (setq edn-bridge-chat--stale nil
        edn-bridge-chat-following nil)
  (condition-case err
      (let ((process-environment
             (append (mapcar (pcase-lambda (`(,name . ,value))
                               (concat name "=" value))
                             edn-bridge-chat-environment)
                     process-environment)))
        (setq edn-bridge-chat--conn
              (edn-bridge-rpc-connect
               :name (edn-bridge-chat-name)
               :command (apply #'edn-bridge-program-command
                               "serve"
                               (append edn-bridge-program-args
                                       (edn-bridge-settings-arguments)))
               :directory default-directory
               :features '("interactor" "flow-credit")
               :context (current-buffer)
               :on-ready #'edn-bridge-chat--on-ready
               :on-event #'edn-bridge-chat--on-event
               :on-batch #'edn-bridge-chat--on-batch
               :on-close #'edn-bridge-chat--on-close
               :on-gap #'edn-bridge-chat--on-gap)))
    (file-missing
     (edn-bridge-chat-notice
      (format "The program %s was not found (%s).  Build it, or set `edn-bridge-program' to its file; then reconnect."
              edn-bridge-program (error-message-string err))
      'edn-bridge-error
      (list "Build it" #'edn-bridge-build)
      (list "Connect" #'edn-bridge-chat-reconnect)))
    ;; A remote host that cannot be reached, say.
    (error
     (if (edn-bridge-chat--line-again-p)
         (edn-bridge-chat--come-back)
       (edn-bridge-chat-notice
        (format "The program could not be started: %s"
                (error-message-string err))
        'edn-bridge-error
        (list "Connect" #'edn-bridge-chat-reconnect)))))
  (force-mode-line-update))

(defun edn-bridge-chat-reconnect ()
  "Start the bridge of this chat buffer again, with the same session.
The draft is kept.  The transcript is built again from the journal, or
goes on where it is if the session went on meanwhile."
  (interactive nil edn-bridge-chat-mode)
  (setq edn-bridge-chat--line-tried nil)
  (let ((old edn-bridge-chat--conn)
        (buffer (current-buffer)))
    (edn-bridge-chat--return-no-more)
    (unless edn-bridge-chat--outlives
      (setq edn-bridge-chat--cut (or edn-bridge-chat--cut
                                     (edn-bridge-chat-running-p))))
    (when (edn-bridge-rpc-live-p old)
      (setf (edn-bridge-rpc-connection-on-close old) #'ignore)
      (edn-bridge-rpc-close old "reconnecting"))
    (edn-bridge-chat-settle (not edn-bridge-chat--outlives))
    (if (not (and old (edn-bridge-rpc-connection-process old)))
        (edn-bridge-chat-connect)
      ;; The session is the old process's as long as that runs.
      (edn-bridge-rpc-when-ended
       old (lambda ()
             (when (buffer-live-p buffer)
               (with-current-buffer buffer
                 ;; The command may have been called twice.
                 (when (eq edn-bridge-chat--conn old)
                   (edn-bridge-chat-connect)))))))))

(defmacro edn-bridge-chat-with-buffer (conn &rest body)
  "Run BODY in the chat buffer of CONN, if it is live and CONN is its own."
  (declare (indent 1) (debug t))
  (macroexp-let2* nil ((conn conn)
                       (buffer `(edn-bridge-rpc-connection-context ,conn)))
    `(when (buffer-live-p ,buffer)
       (with-current-buffer ,buffer
         (when (or (null edn-bridge-chat--conn)
                   (eq ,conn edn-bridge-chat--conn))
           ,@body)))))

(defun edn-bridge-chat-turn-to (session-id)
  "Turn to the session SESSION-ID, on which the connection now is.
Its messages follow, by `session/rehydrated'."
  (edn-bridge-chat--lose-place)
  (setq edn-bridge-chat--session-id session-id
        edn-bridge-chat--last-prompt nil
        edn-bridge-chat--cut nil))

(defun edn-bridge-chat--on-ready (conn)
  "Subscribe on CONN, whose handshake is done, and show its session."
  (edn-bridge-chat-with-buffer conn
    (let ((wanted edn-bridge-chat--session-id)
          (server (edn-bridge-rpc-connection-server conn)))
      (setq edn-bridge-chat--outlives
            (edn-bridge-edn-true-p (plist-get server :outlives-clients))
            edn-bridge-chat--line-tried nil)
      (unless wanted
        (setq edn-bridge-chat--session-id (plist-get server :session-id)))
      (cond
       ((or (null wanted) (equal wanted (plist-get server :session-id)))
        (edn-bridge-chat--subscribe conn)
        (edn-bridge-chat--load conn))
       (edn-bridge-chat--outlives
        (edn-bridge-chat--follow conn))
       (t
        (edn-bridge-chat--subscribe conn)
        (edn-bridge-rpc-request
         conn "switch_session" (list :session-id wanted)
         ;; `session/rehydrated' follows.
         :on-success #'ignore
         :on-error
         (lambda (frame)
           (edn-bridge-chat-with-buffer conn
             (edn-bridge-chat--not-resumed conn frame)))))))
    (force-mode-line-update)))

(defun edn-bridge-chat--subscribe (conn)
  "Subscribe on CONN to what a chat shows."
  (edn-bridge-rpc-request
   conn "subscribe" (list :topics (edn-bridge-chat--topics conn))
   :on-success #'ignore))

(defun edn-bridge-chat--not-resumed (conn frame)
  "Take the new session of CONN: the error FRAME refused the one of this chat.
One in which nothing was said is gone, and is not missed."
  (setq edn-bridge-chat--session-id
        (plist-get (edn-bridge-rpc-connection-server conn) :session-id))
  ;; What came of the new one so far was not of the chat's session.
  (edn-bridge-chat--load-state conn)
  (if (text-property-not-all (point-min) (edn-bridge-transcript-end)
                             'edn-bridge-heading nil)
      (edn-bridge-chat-notice
       (format "The session could not be resumed: %s"
               (plist-get frame :error-message))
       'edn-bridge-error)
    (edn-bridge-chat--load conn)))

(defun edn-bridge-chat--load-state (conn)
  "Ask for the state of the session of CONN and show it."
  (edn-bridge-rpc-request
   conn "get_state" nil
   :on-success (lambda (data)
                 (edn-bridge-chat-with-buffer conn
                   (edn-bridge-chat--dispatch "session/updated"
                                              (plist-get data :state))))
   :on-error #'ignore))

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
       (edn-bridge-chat-settle 'end)
       (edn-bridge-chat--dispatch "session/rehydrated" data)))
   :on-error
   (lambda (frame)
     (when (edn-bridge-rpc-live-p conn)
       (edn-bridge-chat-with-buffer conn
         (edn-bridge-chat-notice
          (format "The session could not be shown: %s"
                  (plist-get frame :error-message))
          'edn-bridge-error))))))

(defun edn-bridge-chat--on-gap (conn)
  "Have what CONN shows built again: events got lost on the way.
While a turn is running only the journal's part could be shown, and so
that waits for its end."
  (edn-bridge-chat-with-buffer conn
    (unless edn-bridge-chat--stale
      (setq edn-bridge-chat--stale t)
      (edn-bridge-rpc-request
       conn "get_state" nil
       :on-success
       (lambda (data)
         (edn-bridge-chat-with-buffer conn
           ;; It may be the end of the turn that got lost.
           (edn-bridge-chat--dispatch "session/updated"
                                      (plist-get data :state))
           (unless (edn-bridge-chat-running-p)
             (edn-bridge-chat--refresh))))
       :on-error #'ignore))))

(defun edn-bridge-chat--refresh ()
  "Build the transcript again where events got lost."
  (when (and edn-bridge-chat--stale
             (edn-bridge-rpc-ready-p edn-bridge-chat--conn))
    (setq edn-bridge-chat--stale nil)
    (edn-bridge-chat--load edn-bridge-chat--conn)))

(add-hook 'edn-bridge-chat-turn-end-hook #'edn-bridge-chat--refresh)

(defun edn-bridge-chat--on-close (conn reason)
  "Reconnect, as CONN ended for REASON, or show that it did."
  (edn-bridge-chat-with-buffer conn
    (if (edn-bridge-chat--returns-p conn)
        (edn-bridge-chat--come-back)
      (edn-bridge-chat--lose-place)
      (edn-bridge-chat-settle 'end)
      (when (edn-bridge-edn-true-p (edn-bridge-chat-get :is-streaming))
        (setq edn-bridge-chat--cut (not edn-bridge-chat--outlives)))
      (setq edn-bridge-chat--session
            (plist-put edn-bridge-chat--session :is-streaming :false)
            edn-bridge-chat--session
            (plist-put edn-bridge-chat--session :retry-deadline-ms nil))
      (edn-bridge-chat--run-clock)
      (edn-bridge-chat--dispatch "client/closed" nil)
      (unless (equal reason "closed")
        (let ((errors (edn-bridge-rpc-stderr conn)))
          (edn-bridge-chat-notice
           (concat "Disconnected: " reason
                   (if (equal errors "") "" (concat "\n" errors)))
           'edn-bridge-error
           (list "Reconnect" #'edn-bridge-chat-reconnect)))))
    (force-mode-line-update)))

;;;; Coming back

(defvar-local edn-bridge-chat--followed nil
  "The connection that was asked for what this chat missed, or nil.")

(defvar-local edn-bridge-chat--returns nil
  "When this chat connected again by itself lately, last first.")

(defconst edn-bridge-chat--return-times 3
  "How often a chat reconnects by itself within some time.")

(defconst edn-bridge-chat--return-seconds 30
  "The time for `edn-bridge-chat--return-times'.")

(defconst edn-bridge-chat--daemon-ended 75
  "Status of a program whose daemon has ended; started again it finds another.")

(defconst edn-bridge-chat--unknown-end 256
  "Status that Emacs gives a process whose output ended before it did.
How the process itself ended, Emacs never says then.")

(defconst edn-bridge-chat--line-lost 255
  "Status of ssh when the line to the host is lost, or cannot be had.")

(defconst edn-bridge-chat--line-delays '(1 2 5 10 20 30)
  "Seconds before each try to reach a host again; the last one repeats.")

(defconst edn-bridge-chat--line-tries 40
  "How often a host is tried to be reached again, some 20 minutes.")

(defun edn-bridge-chat--returns-p (conn)
  "Return non-nil if this chat should reconnect by itself after CONN.
Its process ended, not by the user's wish, and the session went on."
  (let* ((process (edn-bridge-rpc-connection-process conn))
         (status (and process (process-status process)))
         (code (and process (process-exit-status process)))
         (since (- (float-time) edn-bridge-chat--return-seconds)))
    (setq edn-bridge-chat--returns
          (seq-filter (lambda (time) (> time since)) edn-bridge-chat--returns))
    (cond
     ((not edn-bridge-chat--outlives) nil)
     ((and (eq status 'exit)
           (eql code edn-bridge-chat--line-lost)
           (file-remote-p default-directory))
      (setq edn-bridge-chat--line-tried (or edn-bridge-chat--line-tried 0))
      (edn-bridge-chat--line-again-p))
     (t
      (and (< (length edn-bridge-chat--returns) edn-bridge-chat--return-times)
           (or (eq status 'signal)
               (and (eq status 'exit)
                    (memql code (list edn-bridge-chat--daemon-ended
                                      edn-bridge-chat--unknown-end)))))))))

(defun edn-bridge-chat--line-again-p ()
  "Return non-nil if the host of this chat is tried to be reached again."
  (and edn-bridge-chat--line-tried
       (< edn-bridge-chat--line-tried edn-bridge-chat--line-tries)))

(defun edn-bridge-chat--come-back ()
  "Reconnect soon, later the more often it was tried."
  (let ((buffer (current-buffer))
        (delay (length edn-bridge-chat--returns)))
    (edn-bridge-chat-settle)
    (if (not edn-bridge-chat--line-tried)
        (push (float-time) edn-bridge-chat--returns)
      (setq delay (or (nth edn-bridge-chat--line-tried
                           edn-bridge-chat--line-delays)
                      (car (last edn-bridge-chat--line-delays))))
      (cl-incf edn-bridge-chat--line-tried)
      (message "The line to %s is lost; the next try is in %d s"
               (file-remote-p default-directory 'host) delay))
    (edn-bridge-chat--run-clock)
    (setq edn-bridge-chat--return
          (run-at-time delay nil
                       (lambda ()
                         (when (buffer-live-p buffer)
                           (with-current-buffer buffer
                             (setq edn-bridge-chat--return nil)
                             (edn-bridge-chat--connect-quietly))))))))

(defvar tramp-connection-timeout)

(defun edn-bridge-chat--connect-quietly ()
  "Reconnect by a timer.  A remote host is given little time.
Nothing is asked: a host that wants a password counts as out of reach."
  (if (not edn-bridge-chat--line-tried)
      (edn-bridge-chat-connect)
    (let ((inhibit-interaction t)
          (tramp-connection-timeout 5))
      (edn-bridge-chat-connect))))

(defun edn-bridge-chat-stay-away ()
  "Do not reconnect by itself before the user does."
  (edn-bridge-chat--return-no-more)
  (setq edn-bridge-chat--line-tried nil)
  (setq edn-bridge-chat--returns
        (make-list edn-bridge-chat--return-times (float-time))))

(defun edn-bridge-chat--return-no-more ()
  "Do not reconnect by a timer."
  (when edn-bridge-chat--return
    (cancel-timer edn-bridge-chat--return)
    (setq edn-bridge-chat--return nil)))

(defconst edn-bridge-chat--nowhere most-positive-fixnum
  "Offset that no session has: what is there is shown anew.")

(defun edn-bridge-chat--follow (conn)
  "Have CONN continue this chat's session from what is shown of it."
  (let ((place edn-bridge-chat--place)
        (at (funcall edn-bridge-chat--in-answer-function)))
    (setq edn-bridge-chat-following t
          edn-bridge-chat-left-running (edn-bridge-edn-true-p
                                        (edn-bridge-chat-get :is-streaming))
          edn-bridge-chat--followed conn)
    (edn-bridge-chat-doubt)
    (edn-bridge-rpc-request
     conn "subscribe"
     (list :topics (edn-bridge-chat--topics conn)
           :since (append
                   (list :session-id edn-bridge-chat--session-id
                         :offset (if place (car place) edn-bridge-chat--nowhere))
                   (and (cdr place) (list :entry-id (cdr place)))
                   (and place at (list :at at))))
     :on-success #'ignore
     :on-error
     (lambda (frame)
       (edn-bridge-chat-with-buffer conn
         (setq edn-bridge-chat-following nil)
         (edn-bridge-chat-settle 'end)
         (edn-bridge-chat--lose-place)
         (edn-bridge-chat--not-resumed conn frame)
         (edn-bridge-chat--subscribe conn)
         (edn-bridge-chat--load conn))))))

(defun edn-bridge-chat-follow-anew ()
  "Have all that is shown of this chat's session built again."
  (edn-bridge-chat--lose-place)
  (edn-bridge-chat--follow edn-bridge-chat--conn))

;;;; Events

(defun edn-bridge-chat--on-event (conn topic data)
  "Call the handlers of TOPIC with DATA of an event on CONN."
  (edn-bridge-chat-with-buffer conn
    (edn-bridge-chat-show-event topic data)
    ;; An error in a handler shows nothing, and then it is not noted.
    (edn-bridge-chat--note-place topic data)))

(defun edn-bridge-chat-show-event (topic data)
  "Show DATA of an event of TOPIC, or of what stands for one."
  (if (gethash topic edn-bridge-chat--collected)
      (setq edn-bridge-chat--news t)
    (unless (member topic '("session/updated" "footer/updated" "job/updated"))
      (setq edn-bridge-chat--news t))
    (edn-bridge-chat-settle))
  (edn-bridge-chat--dispatch topic data))

(defun edn-bridge-chat--dispatch (topic data)
  "Call the handlers of TOPIC with DATA."
  (dolist (function (gethash topic edn-bridge-chat--handlers))
    (funcall function data)))

(defun edn-bridge-chat--on-batch (conn)
  "Show what came on CONN and is not shown yet."
  (edn-bridge-chat-with-buffer conn
    (when edn-bridge-chat--news
      (setq edn-bridge-chat--news nil
            edn-bridge-chat--heard (float-time)))
    (edn-bridge-chat-settle)
    (edn-bridge-transcript-fill-windows)))

(defun edn-bridge-chat-settle (&optional end)
  "Have shown what was collected of events and is not shown yet.
With END non-nil, what streams in is at its end: what follows is another
message, or the call of a tool.  Anything else that is added to the
transcript meanwhile stands below it."
  (run-hook-with-args 'edn-bridge-chat-settle-functions end))

(defun edn-bridge-chat--on-session (data)
  "Take note of DATA of `session/updated'."
  (when (edn-bridge-chat-mine-p data)
    (let ((was-running (edn-bridge-edn-true-p
                        (edn-bridge-chat-get :is-streaming))))
      (setq edn-bridge-chat--session data
            edn-bridge-chat--session-id (or (plist-get data :session-id)
                                            edn-bridge-chat--session-id))
      (cond ((not (edn-bridge-chat-running-p))
             (setq edn-bridge-chat--heard nil
                   edn-bridge-chat-working nil))
            ((not was-running)
             (setq edn-bridge-chat--heard (float-time))
             (run-hooks 'edn-bridge-chat-turn-begin-hook)))
      (edn-bridge-chat--run-clock)
      (when (and was-running (not (edn-bridge-chat-running-p)))
        (edn-bridge-chat-settle 'end)
        (run-hooks 'edn-bridge-chat-turn-end-hook)))
    (force-mode-line-update)))

(defun edn-bridge-chat--on-resumed (data)
  "Turn to the session that DATA of `session/resumed' names."
  (setq edn-bridge-chat--session-id (plist-get data :session-id)
        edn-bridge-chat--session nil))

(defun edn-bridge-chat--on-error (data)
  "Show DATA of an `error' event."
  (edn-bridge-chat-notice
   (or (plist-get data :error-message) "Unknown error")
   'edn-bridge-error))

(defconst edn-bridge-chat--widest-name 24
  "Columns that the names of a command's result have at most.
What is said of a longer one begins the next line.")

(defun edn-bridge-chat--in-columns (text)
  "Return TEXT, where each line has a name and what it is, in columns.
The names have a face, and what is said of them is wrapped below itself.
Another text is returned as it is."
  (let* ((row "\\`\\(\\S-.*?\\)  +\\(\\S-.*\\)\\'")
         (lines (split-string text "\n"))
         (columns (mapcar (lambda (line)
                            (and (string-match row line)
                                 (match-beginning 2)))
                          lines)))
    (if (not (and (cdr lines) (car columns)
                  ;; The bridge has padded the names.
                  (= 1 (length (seq-uniq columns)))))
        text
      (let* ((column (min (car columns) edn-bridge-chat--widest-name))
             (indent (make-string column ?\s)))
        (mapconcat
         (lambda (line)
           (string-match row line)
           (let ((name (match-string 1 line))
                 (what (match-string 2 line)))
             (concat (propertize name 'face 'edn-bridge-title)
                     (propertize
                      (concat (if (< (string-width name) (1- column))
                                  (make-string (- column (string-width name))
                                               ?\s)
                                (concat "\n" indent))
                              what)
                      'wrap-prefix indent))))
         lines "\n")))))

(defun edn-bridge-chat--on-command-result (data)
  "Show DATA of `command-result'."
  (let ((type (edn-bridge-chat-word (plist-get data :type)))
        (text (plist-get data :message)))
    (when (and (stringp text) (not (equal text "")))
      (edn-bridge-chat-notice (edn-bridge-chat--in-columns text)
                              (if (equal type "error")
                                  'edn-bridge-error
                                'default)))
    (when (and (equal type "login_start")
               ;; Where the bridge can ask, it asks for the code by itself.
               (not (edn-bridge-rpc-feature-p edn-bridge-chat--conn
                                              "interactor")))
      (edn-bridge-chat-notice "When the page gives you a code:" nil
                              (list "Enter it" #'edn-bridge-chat-finish-login)))
    (when (equal type "quit")
      (edn-bridge-rpc-close edn-bridge-chat--conn))))

(defun edn-bridge-chat-finish-login (code)
  "Finish the login that was begun in this chat with CODE, which is not echoed.
Where the page that was opened tells the bridge by itself, CODE is empty."
  (interactive (list (read-passwd "Code (may be empty): "))
               edn-bridge-chat-mode)
  (let ((conn (edn-bridge-chat-current)))
    (edn-bridge-rpc-request
     conn "login_complete" (and (not (equal code "")) (list :input code))
     :on-success
     (lambda (data)
       (edn-bridge-chat-with-buffer conn
         (edn-bridge-chat-notice
          (format "Logged in to %s"
                  (or (plist-get (plist-get data :provider) :name)
                      "the provider")))))
     :on-error
     (lambda (frame)
       (edn-bridge-chat-with-buffer conn
         (edn-bridge-chat-notice (plist-get frame :error-message)
                                 'edn-bridge-error))))
    (clear-string code)))

;;;; Handlers

(edn-bridge-chat-handle "session/updated" #'edn-bridge-chat--on-session)
(edn-bridge-chat-handle "session/resumed" #'edn-bridge-chat--on-resumed)
(edn-bridge-chat-handle "command-result" #'edn-bridge-chat--on-command-result)
(edn-bridge-chat-handle "error" #'edn-bridge-chat--on-error)

(provide 'edn-bridge-chat)

;;; edn-bridge-chat.el ends here
