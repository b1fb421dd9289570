;;; edn-bridge-sessions.el --- Switch, name and fork sessions  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Commands of a chat buffer that turn it to another session, and those
;; that concern a session as a whole.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-chat)
(require 'edn-bridge-messages)
(require 'edn-bridge-complete)
(require 'edn-bridge-input)
(require 'edn-bridge-work)
(require 'edn-bridge-view)

;;;; Choosing

(defun edn-bridge-sessions-label (slot)
  "Return what SLOT, a session as listed by the bridge, is called."
  (let ((name (or (plist-get slot :display-name)
                  (plist-get slot :name)
                  (plist-get slot :first-message)))
        (id (plist-get slot :id)))
    (if (and (stringp name) (not (equal name "")))
        (truncate-string-to-width
         (edn-bridge-visible-label (car (split-string name "\n")))
         60 nil nil "…")
      (format "session %s" id))))

(defun edn-bridge-sessions--annotate (slot &optional slots)
  "Return the annotation of SLOT, which is listed with SLOTS, in columns."
  (let ((count (plist-get slot :message-count))
        (origin (edn-bridge-sessions-fork-p slot slots)))
    (string-trim-right
     (format "%-11s %-13s %s"
             (or (edn-bridge-sessions-age slot) "")
             (if (integerp count)
                 (format "%d message%s" count (if (= count 1) "" "s"))
               "")
             (string-join
              (delq nil
                    (list (and (edn-bridge-edn-true-p
                                (plist-get slot :is-active))
                               "here")
                          (and (edn-bridge-edn-true-p (plist-get slot :archived))
                               "archived")
                          (and origin
                               (concat "fork of "
                                       (edn-bridge-sessions-label origin)))
                          (edn-bridge-sessions-state slot)
                          (edn-bridge-sessions-host slot)))
              ", ")))))

(defun edn-bridge-sessions-age (slot)
  "Return how long ago SLOT was used last, or nil where that is not known."
  (when-let ((time (or (plist-get slot :modified) (plist-get slot :created-at)))
             (seconds (ignore-errors
                        (floor (- (float-time) (float-time
                                                (date-to-time time)))))))
    (cond ((< seconds 60) "now")
          ((< seconds 3600) (format "%d min ago" (/ seconds 60)))
          ((< seconds 86400) (format "%d h ago" (/ seconds 3600)))
          ((< seconds (* 2 86400)) "yesterday")
          ((< seconds (* 30 86400)) (format "%d days ago" (/ seconds 86400)))
          ;; The day of a longer time says more than its length.
          (t (edn-bridge-visible-label
              (substring time 0 (min (length time) 10)))))))

(defun edn-bridge-sessions-state (slot)
  "Return that SLOT runs or what it waits for, or nil."
  (let ((work (edn-bridge-work-find (plist-get slot :id))))
    (cond (work
           (edn-bridge-work-state work))
          ((edn-bridge-edn-true-p (plist-get slot :is-streaming))
           "running"))))

(defun edn-bridge-sessions-host (slot)
  "Return on which host of the realm SLOT is, or nil if it is of none."
  (let ((host (plist-get slot :host)))
    (and (stringp host)
         (format (if (edn-bridge-edn-true-p (plist-get slot :owner-lost))
                     "%s is lost"
                   "on %s")
                 (edn-bridge-visible-label host)))))

(defun edn-bridge-sessions-fork-p (slot slots)
  "Return the one of SLOTS that SLOT is a fork of, which is called like it.
A session of a subagent comes from another one as well."
  (let ((parent (plist-get slot :parent-session-id)))
    (and parent
         (seq-find (lambda (other)
                     (and (equal parent (plist-get other :id))
                          (equal (edn-bridge-sessions-label slot)
                                 (edn-bridge-sessions-label other))))
                   slots))))

(defun edn-bridge-sessions-time (slot)
  "Return when SLOT was used last, as far as that is known, or nil."
  (edn-bridge-chat-time
   (or (plist-get slot :modified) (plist-get slot :created-at))))

;;;; Commands

(defun edn-bridge-sessions--turn-to (conn op params &optional note draft)
  "Turn the chat of CONN to the session that OP with PARAMS answers with.
NOTE is a message for the user then, or nil.  Where DRAFT is not nil, it
becomes the draft."
  (edn-bridge-rpc-request
   conn op params
   :on-success
   (lambda (data)
     (edn-bridge-chat-with-buffer conn
       (edn-bridge-chat-turn-to (plist-get data :session-id))
       ;; What point was at is not there any more.
       (edn-bridge-transcript-go-to-draft)
       (when draft
         (edn-bridge-transcript-set-draft draft))
       (when note
         (message "%s" note))))
   :on-error
   (lambda (frame)
     (edn-bridge-chat-with-buffer conn
       (edn-bridge-sessions--refused (plist-get frame :error-message)
                                     (plist-get params :session-id))))))

(defun edn-bridge-sessions--refused (reason session-id)
  "Say for what REASON this chat was not turned to SESSION-ID, which may be nil.
A session that another program has can be read."
  (if (not (and session-id
                (string-match "is open already, in \\(process [0-9]+\\)"
                              reason)))
      (edn-bridge-chat-notice reason 'edn-bridge-error)
    (edn-bridge-chat-notice
     (format "That session is open in another program (%s).  End it there to continue it here."
             (match-string 1 reason))
     'edn-bridge-error
     (list "Read it" (lambda ()
                       (interactive)
                       (edn-bridge-sessions-read session-id)))
     (list "Choose another" #'edn-bridge-sessions-switch))))

(defun edn-bridge-sessions-read (session-id)
  "Show the session SESSION-ID, whoever has it open, in a buffer of its own.
Interactively, choose it."
  (interactive (list (edn-bridge-sessions--choose nil)) edn-bridge-chat-mode)
  (let ((buffer (get-buffer-create "*edn-bridge session*"))
        (folder default-directory))
    (with-current-buffer buffer
      (edn-bridge-page-mode)
      (setq default-directory folder)
      (edn-bridge-visible-setup)
      (edn-bridge-markdown-setup)
      (setq-local revert-buffer-function
                  (lambda (&rest _) (edn-bridge-sessions--read session-id)))
      (edn-bridge-sessions--read session-id))
    (pop-to-buffer buffer)))

(defun edn-bridge-sessions--read (session-id)
  "Show the session SESSION-ID, as the program tells it, in this buffer."
  (let ((buffer (current-buffer))
        (command (edn-bridge-program-command "sessions" "show")))
    (let ((inhibit-read-only t))
      (erase-buffer))
    (make-process
     :name "edn-bridge sessions show"
     :buffer (generate-new-buffer " *edn-bridge session*" t)
     :command (append command (edn-bridge-sessions--state-args)
                      (list "--" session-id))
     :connection-type 'pipe
     :coding 'utf-8-unix
     :noquery t
     :file-handler t
     :sentinel (lambda (process _change)
                 (unless (process-live-p process)
                   (edn-bridge-sessions--show-read process buffer))))))

(defun edn-bridge-sessions--state-args ()
  "Return those of the program's arguments that say where sessions are."
  (cl-loop for (name value) on edn-bridge-program-args
           when (and (equal name "--state-dir") value)
           append (list name value)))

(defun edn-bridge-sessions--show-read (process buffer)
  "Show what PROCESS, which has ended, wrote of a session in BUFFER."
  (let ((text (with-current-buffer (process-buffer process)
                (buffer-string))))
    (kill-buffer (process-buffer process))
    (when (buffer-live-p buffer)
      (with-current-buffer buffer
        (let ((inhibit-read-only t))
          (erase-buffer)
          (insert (edn-bridge-visible-break text 0))
          (edn-bridge-markdown-region (point-min) (point-max))
          (edn-bridge-visible-region (point-min) (point-max))
          (goto-char (point-min)))))))

(defun edn-bridge-sessions--choose (all)
  "Choose a session of this project, or with ALL of any, and return its id."
  (plist-get (edn-bridge-sessions--choose-slot "Session: " all) :id))

(defun edn-bridge-sessions--choose-slot (prompt all &optional archived)
  "Choose a session of this project, or with ALL of any, and return it.
PROMPT is shown.  With ARCHIVED non-nil, archived ones are among them."
  (let* ((data (edn-bridge-rpc-call
                (edn-bridge-chat-current) "list_sessions"
                (append (list :scope (if all "all" "project"))
                        (and archived '(:archived? t)))))
         (slots (seq-filter #'edn-bridge-sessions--offered-p
                            (append (plist-get data :sessions) nil))))
    (edn-bridge-sessions-say-missing data)
    (unless slots
      (user-error "There is no session yet"))
    (edn-bridge-complete-choose
     prompt 'edn-bridge-session slots
     #'edn-bridge-sessions-label
     (lambda (slot) (edn-bridge-sessions--annotate slot slots)))))

(defun edn-bridge-sessions-say-missing (data)
  "Say what DATA, a list of sessions, has not: copies, and damaged files."
  (when-let ((missing (plist-get data :missing)))
    (message "%s" (edn-bridge-visible-label missing))))

(defun edn-bridge-sessions--offered-p (slot)
  "Return non-nil if SLOT has messages, or a name, or is this chat's session."
  (let ((count (plist-get slot :message-count)))
    (or (not (integerp count))
        (> count 0)
        (not (member (plist-get slot :name) '(nil "")))
        (equal (plist-get slot :id) edn-bridge-chat--session-id))))

(defun edn-bridge-sessions-switch (session-id)
  "Turn this chat to the session SESSION-ID, or go to the chat that is on it.
Interactively, choose it; with a prefix argument, from all projects."
  (interactive
   (list (edn-bridge-sessions--choose current-prefix-arg))
   edn-bridge-chat-mode)
  (let ((other (edn-bridge-sessions--other-chat session-id)))
    (if other
        (pop-to-buffer-same-window other)
      (edn-bridge-sessions--turn-to (edn-bridge-chat-current)
                                    "switch_session"
                                    (list :session-id session-id)))))

(defun edn-bridge-sessions--other-chat (session-id)
  "Return another chat that is connected to the session SESSION-ID, or nil.
A session is open in one process at a time."
  (seq-find (lambda (buffer)
              (and (not (eq buffer (current-buffer)))
                   (equal session-id
                          (buffer-local-value 'edn-bridge-chat--session-id
                                              buffer))
                   (edn-bridge-rpc-live-p
                    (buffer-local-value 'edn-bridge-chat--conn buffer))))
            (edn-bridge-chat-buffers)))

;;;; The last session

(defcustom edn-bridge-sessions-resume 'offer
  "What a chat that is opened does about the last session of its project.
The symbol `offer' means that a line above the draft names it."
  :type '(choice (const :tag "Offer it" offer)
                 (const :tag "Continue with it" t)
                 (const :tag "Nothing" nil))
  :group 'edn-bridge)

(defvar-local edn-bridge-sessions-fresh nil
  "Non-nil in a chat that was just opened, and can continue another session.
The symbol `new' means that the user wanted a new one.")

(defvar-local edn-bridge-sessions--last nil
  "Id of the session that is offered in this chat, or nil.")

(defun edn-bridge-sessions--offer-last ()
  "Where this chat was just opened, ask for the last session, and offer it."
  (edn-bridge-sessions--forget-last)
  (when edn-bridge-sessions-fresh
    (let ((wanted (not (eq edn-bridge-sessions-fresh 'new)))
          (conn edn-bridge-chat--conn))
      (setq edn-bridge-sessions-fresh nil)
      (when edn-bridge-sessions-resume
        (edn-bridge-rpc-request
         conn "list_sessions" '(:scope "project" :limit 20)
         :on-success
         (lambda (data)
           (edn-bridge-chat-with-buffer conn
             (edn-bridge-sessions--found-last
              (append (plist-get data :sessions) nil) wanted)))
         :on-error #'ignore)))))

(defun edn-bridge-sessions--found-last (slots wanted)
  "Offer the last of SLOTS that was used, or with WANTED perhaps continue it.
Not where something was said meanwhile."
  (let ((last (car (seq-sort-by
                    (lambda (slot) (or (plist-get slot :modified)
                                       (plist-get slot :created-at) ""))
                    (lambda (a b) (string-lessp b a))
                    (seq-filter #'edn-bridge-sessions--used-p slots)))))
    (when (and last (edn-bridge-chat-unused-p))
      (let ((id (plist-get last :id)))
        (if (and wanted (eq edn-bridge-sessions-resume t))
            (edn-bridge-sessions--turn-to (edn-bridge-chat-current)
                                          "switch_session"
                                          (list :session-id id))
          (setq edn-bridge-sessions--last id)
          (edn-bridge-chat-set-status
           'edn-bridge-sessions
           (list (concat
                  (edn-bridge-faces-keys
                   "\\[edn-bridge-sessions-continue] continues ")
                  (edn-bridge-sessions-label last)
                  (if-let ((time (edn-bridge-sessions-time last)))
                      (format " (%s)" time)
                    "")))))))))

(defun edn-bridge-sessions--used-p (slot)
  "Return non-nil if SLOT has messages and is in no chat of this Emacs."
  (let ((count (plist-get slot :message-count))
        (id (plist-get slot :id)))
    (and (if (integerp count) (> count 0) (plist-get slot :session-file))
         (not (equal id edn-bridge-chat--session-id))
         (not (edn-bridge-sessions--other-chat id)))))

(defun edn-bridge-sessions--forget-last ()
  "Offer no session in this chat."
  (setq edn-bridge-sessions--last nil)
  (edn-bridge-chat-set-status 'edn-bridge-sessions nil))

(defun edn-bridge-sessions-continue ()
  "Turn this chat to the last session of its project, which is offered."
  (interactive nil edn-bridge-chat-mode)
  (unless edn-bridge-sessions--last
    (user-error "No session is offered; %s chooses one"
                (edn-bridge-faces-keys "\\[edn-bridge-sessions-switch]")))
  (edn-bridge-sessions-switch edn-bridge-sessions--last))

;;;; What runs and waits

(defconst edn-bridge-sessions--offered 4
  "How many sessions that run or wait a chat offers.")

(defun edn-bridge-sessions--offer-work ()
  "Where nothing was said in this chat, offer what runs and waits.
What this project has comes first, and before it what is waiting."
  (edn-bridge-chat-set-status
   'edn-bridge-work
   (when (edn-bridge-chat-unused-p)
     (let* ((works (seq-sort-by
                    #'edn-bridge-sessions--work-rank #'<
                    (seq-remove (lambda (work)
                                  (member (edn-bridge-work-id work)
                                          (cons edn-bridge-chat--session-id
                                                (edn-bridge-interact-elsewhere))))
                                (edn-bridge-work-list))))
            (rest (nthcdr edn-bridge-sessions--offered works)))
       (append
        (mapcar #'edn-bridge-sessions--work-line
                (seq-take works edn-bridge-sessions--offered))
        (and rest
             (list (format "%d more run or wait; M-x edn-bridge-daemon shows them"
                           (length rest)))))))))

(defun edn-bridge-sessions--here-p (work)
  "Return non-nil if WORK is of this chat's project."
  (member (edn-bridge-work-folder work)
          (list default-directory
                ;; To ask another host would take its time.
                (if (file-remote-p default-directory)
                    default-directory
                  (file-truename default-directory)))))

(defun edn-bridge-sessions--work-rank (work)
  "Return a number that is the lower the more WORK matters in this chat."
  (+ (if (edn-bridge-sessions--here-p work) 0 2)
     (if (edn-bridge-work-asks work) 0 1)))

(defun edn-bridge-sessions--work-line (work)
  "Return the line above the draft that offers WORK."
  (concat
   (if (edn-bridge-sessions--here-p work)
       ""
     (format "In %s: " (edn-bridge-visible-label
                        (abbreviate-file-name
                         (directory-file-name (edn-bridge-work-folder work))))))
   (edn-bridge-work-label work)
   (if (edn-bridge-work-asks work) " — " " is ")
   (edn-bridge-work-state work)
   "  "
   (make-text-button (copy-sequence "[Open]") nil
                     'face 'edn-bridge-button 'follow-link t
                     'help-echo "mouse-1, RET: Open"
                     'action (lambda (_button)
                               (edn-bridge-sessions--open-work work)))))

(defun edn-bridge-sessions--open-work (work)
  "Turn this chat to WORK if it is of this project, or go to its chat."
  (if (edn-bridge-sessions--here-p work)
      (edn-bridge-sessions-switch (edn-bridge-work-id work))
    (edn-bridge-work-visit work)))

(defun edn-bridge-sessions--forget-work (&rest _)
  "Offer nothing that runs or waits in this chat."
  (edn-bridge-chat-set-status 'edn-bridge-work nil))

(add-hook 'edn-bridge-work-hook #'edn-bridge-sessions--offer-work)
(add-hook 'edn-bridge-chat-rebuilt-hook #'edn-bridge-sessions--forget-work)
(add-hook 'edn-bridge-input-send-hook #'edn-bridge-sessions--forget-work)
(edn-bridge-chat-handle "user/message" #'edn-bridge-sessions--forget-work)

(add-hook 'edn-bridge-chat-ready-hook #'edn-bridge-sessions--offer-last)
(add-hook 'edn-bridge-input-send-hook #'edn-bridge-sessions--forget-last)

;;;; More commands

(defun edn-bridge-sessions-new ()
  "Begin a new session in this chat."
  (interactive nil edn-bridge-chat-mode)
  (edn-bridge-sessions--turn-to (edn-bridge-chat-current) "new_session" nil))

(defun edn-bridge-sessions-rename (name &optional then)
  "Call the session of this chat NAME.
Where THEN is not nil, it is called after that."
  (interactive
   (list (read-string "Name of this session: "
                      (edn-bridge-chat-get :session-name)))
   edn-bridge-chat-mode)
  (edn-bridge-rpc-request (edn-bridge-chat-current)
                          "set_session_name" (list :name name)
                          :on-success (lambda (_data)
                                        (when then
                                          (funcall then)))))

(defun edn-bridge-sessions-delete (slot)
  "Delete the session SLOT, as the bridge lists it, after a question.
Interactively, choose it; with a prefix argument, from all projects."
  (interactive
   (list (edn-bridge-sessions--choose-slot "Delete session: "
                                           current-prefix-arg t))
   edn-bridge-chat-mode)
  (edn-bridge-sessions-change
   slot "delete_session" nil "deleted"
   (format "Delete the session \"%s\" for good? "
           (edn-bridge-sessions-label slot))))

(defun edn-bridge-sessions-take (slot folder)
  "Take over the session SLOT, whose host is lost, in FOLDER.
Where FOLDER is empty, the program looks for one of the same git remote.
Interactively, choose the session from all hosts of the realm, and the folder."
  (interactive
   (list (edn-bridge-sessions--choose-slot "Take over session: " t)
         ;; What is inserted would have to be deleted for the empty answer.
         (let ((insert-default-directory nil))
           (read-directory-name
            "Continue in folder (empty: one of the same git remote): "
            nil "" t)))
   edn-bridge-chat-mode)
  (let ((conn (edn-bridge-chat-current)))
    (edn-bridge-rpc-request
     conn "take_session"
     (append (list :session-id (plist-get slot :id))
             (unless (equal folder "")
               (list :cwd (file-local-name
                           (directory-file-name (expand-file-name folder))))))
     :on-success
     (lambda (data)
       (edn-bridge-chat-with-buffer conn
         (if (equal (plist-get data :session-id) edn-bridge-chat--session-id)
             (message "The session continues here")
           (edn-bridge-sessions-switch (plist-get data :session-id)))))
     :on-error #'edn-bridge-chat-refused)))

(defun edn-bridge-sessions-hand-over (host)
  "Give this chat's session to HOST, another host of the realm."
  (interactive "sHand this session over to the host: " edn-bridge-chat-mode)
  (edn-bridge-sessions-change
   (list :id edn-bridge-chat--session-id
         :name (edn-bridge-chat-get :session-display-name))
   "hand_over_session" (list :host host) (format "%s's now" host)))

(defun edn-bridge-sessions-archive (slot)
  "Archive the session SLOT, as the bridge lists it, or take it out again.
Interactively, choose it; with a prefix argument, from all projects."
  (interactive
   (list (edn-bridge-sessions--choose-slot "Archive session, or take it out: "
                                           current-prefix-arg t))
   edn-bridge-chat-mode)
  (let ((archived (edn-bridge-edn-true-p (plist-get slot :archived))))
    (edn-bridge-sessions-change
     slot "archive_session" (list :archived? (edn-bridge-edn-bool (not archived)))
     (if archived "not archived any more" "archived"))))

(defun edn-bridge-sessions-change (slot op params done &optional question then)
  "Do OP with PARAMS to the session SLOT, and say that it is DONE.
QUESTION, where it is not nil, is asked before, and THEN called after it.
The bridge refuses what is in use; the echo area says so."
  (let ((conn (edn-bridge-chat-current)))
    (when (and (equal op "delete_session")
               (equal (plist-get slot :id) edn-bridge-chat--session-id))
      (user-error "This chat is on that session; turn it to another one first"))
    (when (or (null question) (yes-or-no-p question))
      (edn-bridge-rpc-request
       conn op (append (list :session-id (plist-get slot :id)) params)
       :on-success (lambda (_data)
                     (message "The session \"%s\" is %s"
                              (edn-bridge-sessions-label slot) done)
                     (when then
                       (funcall then)))
       :on-error #'edn-bridge-chat-refused))))

(defun edn-bridge-sessions-fork (entry-id)
  "Begin a session that has this one's messages up to ENTRY-ID.
Interactively, that is the message at point, or yours above it; where point
is in the draft, choose the message."
  (interactive
   (list (or (and (not (edn-bridge-transcript-in-draft-p))
                  (or (get-text-property (point) 'edn-bridge-entry)
                      (car (edn-bridge-sessions--own-message))))
             (edn-bridge-sessions--choose-message)))
   edn-bridge-chat-mode)
  (edn-bridge-sessions--turn-to
   (edn-bridge-chat-current) "fork" (list :entry-id entry-id)
   (edn-bridge-faces-keys
    "This is the fork; \\[edn-bridge-sessions-switch] goes back")))

(defun edn-bridge-sessions-edit ()
  "Edit the message of yours at point, or the last one, and send it again.
The chat turns to a fork that ends before it, with the message as the draft."
  (interactive nil edn-bridge-chat-mode)
  (unless (equal (string-trim (edn-bridge-transcript-draft)) "")
    (user-error "The draft is not empty"))
  (pcase-let ((`(,entry . ,text)
               (or (edn-bridge-sessions--own-message)
                   (user-error "There is no message of yours here")))
              (conn (edn-bridge-chat-current)))
    (edn-bridge-rpc-request
     conn "get_messages" (list :before entry :limit 1)
     :on-success
     (lambda (data)
       (edn-bridge-chat-with-buffer conn
         (let ((before (plist-get (car (append (plist-get data :messages) nil))
                                  :id)))
           (edn-bridge-sessions--turn-to
            conn
            (if before "fork" "new_session")
            (if before
                (list :entry-id before)
              (list :parent-session edn-bridge-chat--session-id))
            (edn-bridge-faces-keys
             "This is the fork; \\[edn-bridge-sessions-switch] goes back")
            text)))))))

(defun edn-bridge-sessions--own-message ()
  "Return the user's message that point is in or below, or nil.
It is a cons of its entry and its text."
  (save-excursion
    (let ((place (point))
          (found nil)
          (match nil))
      (goto-char (point-max))
      (while (and (not found)
                  (setq match (text-property-search-backward
                               'edn-bridge-heading 'said t)))
        (goto-char (prop-match-beginning match))
        (when (<= (point) place)
          (setq found (point))))
      (when found
        (let ((entry (get-text-property found 'edn-bridge-entry)))
          (and entry
               (cons entry (get-text-property found 'edn-bridge-said))))))))

(defconst edn-bridge-sessions--choice 500
  "How many of the last messages can be chosen from.")

(defun edn-bridge-sessions--choose-message ()
  "Choose a message of this session and return its entry's id."
  (let* ((data (edn-bridge-rpc-call (edn-bridge-chat-current)
                                    "get_messages"
                                    (list :limit edn-bridge-sessions--choice)))
         (messages
          (seq-filter (lambda (message)
                        (and (member (edn-bridge-chat-word
                                      (plist-get message :role))
                                     '("user" "assistant"))
                             (not (equal "" (edn-bridge-messages-text
                                             message)))))
                      (append (plist-get data :messages) nil))))
    (unless messages
      (user-error "There is no message to fork at"))
    (plist-get
     (edn-bridge-complete-choose
      "Fork after: " 'edn-bridge-message (nreverse messages)
      (lambda (message)
        (truncate-string-to-width
         (replace-regexp-in-string
          "[ \t\n]+" " " (edn-bridge-messages-text message))
         70 nil nil "…"))
      (lambda (message)
        (edn-bridge-chat-word (plist-get message :role))))
     :id)))

;;;; Exporting

(defun edn-bridge-sessions-export (file)
  "Write the session of this chat as a page to FILE.
Interactively, the bridge chooses the file; with a prefix argument, ask."
  (interactive
   (list (and current-prefix-arg
              (read-file-name "Export to: " nil nil nil "session.html")))
   edn-bridge-chat-mode)
  (let ((conn (edn-bridge-chat-current)))
    (edn-bridge-rpc-request
     conn "export_html"
     (and file (list :path (file-local-name (expand-file-name file))))
     :on-success
     (lambda (data)
       (edn-bridge-chat-with-buffer conn
         (let ((path (plist-get data :path)))
           (edn-bridge-chat-notice
            (format "Exported to %s" path) nil
            (list "Open it"
                  (lambda ()
                    (interactive)
                    (browse-url-of-file
                     (edn-bridge-transcript-file path)))))))))))

(defun edn-bridge-sessions-copy-transcript ()
  "Put the transcript of this chat, as it is shown, on the kill ring."
  (interactive nil edn-bridge-chat-mode)
  (kill-new (substring-no-properties
             (edn-bridge-visible-unbroken (point-min)
                                          (edn-bridge-transcript-end))))
  (message "The transcript is on the kill ring"))

(edn-bridge-input-handle "clear" #'edn-bridge-sessions-new
                         "Begin a new session in this chat, as /new does.")

(let ((map edn-bridge-chat-mode-map))
  (define-key map (kbd "C-c C-s") #'edn-bridge-sessions-switch)
  (define-key map (kbd "C-c C-n") #'edn-bridge-sessions-new)
  (define-key map (kbd "C-c C-p") #'edn-bridge-sessions-continue)
  (define-key map (kbd "C-c C-x") #'edn-bridge-sessions-edit)
  (define-key map (kbd "C-c C-f") #'edn-bridge-sessions-fork))

(provide 'edn-bridge-sessions)

;;; edn-bridge-sessions.el ends here
