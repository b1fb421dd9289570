;;; edn-bridge-sessions.el --- Switch, name and fork sessions  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Commands of a chat buffer that turn it to another session, and those
;; that concern a session as a whole.

;;; Code:

(require 'cl-lib)
(require 'iso8601)
(require 'edn-bridge-chat)
(require 'edn-bridge-messages)
(require 'edn-bridge-complete)

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

(defun edn-bridge-sessions--annotate (slot)
  "Return what is said of SLOT beside its label."
  (string-join
   (delq nil
         (list (and (edn-bridge-edn-true-p (plist-get slot :is-active)) "here")
               (and (edn-bridge-edn-true-p (plist-get slot :is-streaming))
                    "running")
               (let ((count (plist-get slot :message-count)))
                 (and count (format "%d messages" count)))
               (edn-bridge-sessions-time slot)))
   ", "))

(defun edn-bridge-sessions-time (slot)
  "Return when SLOT was used last, as far as that is known, or nil."
  (let ((text (or (plist-get slot :modified) (plist-get slot :created-at))))
    (and (stringp text)
         (condition-case nil
             (format-time-string "%F %R" (encode-time (iso8601-parse text)))
           (error text)))))

;;;; Commands

(defun edn-bridge-sessions--turn-to (conn op params &optional note)
  "Turn the chat of CONN to the session that OP with PARAMS answers with.
NOTE is what the user is told then, or nil."
  (edn-bridge-rpc-request
   conn op params
   :on-success
   (lambda (data)
     (edn-bridge-chat-with-buffer conn
       (edn-bridge-chat-turn-to (plist-get data :session-id))
       (when note
         (message "%s" note))))))

(defun edn-bridge-sessions-switch (session-id)
  "Turn this chat to the session SESSION-ID, or go to the chat that is on it.
Interactively, choose it; with a prefix argument, from all projects."
  (interactive
   (let* ((conn (edn-bridge-chat-current))
          (data (edn-bridge-rpc-call
                 conn "list_sessions"
                 (list :scope (if current-prefix-arg "all" "project"))))
          (slots (append (plist-get data :sessions) nil)))
     (unless slots
       (user-error "There is no session yet"))
     (list (plist-get (edn-bridge-complete-choose
                       "Session: " 'edn-bridge-session slots
                       #'edn-bridge-sessions-label
                       #'edn-bridge-sessions--annotate)
                      :id)))
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

(defun edn-bridge-sessions-new ()
  "Begin a new session in this chat."
  (interactive nil edn-bridge-chat-mode)
  (edn-bridge-sessions--turn-to (edn-bridge-chat-current) "new_session" nil))

(defun edn-bridge-sessions-rename (name)
  "Call the session of this chat NAME."
  (interactive
   (list (read-string "Name of this session: "
                      (edn-bridge-chat-get :session-name)))
   edn-bridge-chat-mode)
  (edn-bridge-rpc-request (edn-bridge-chat-current)
                          "set_session_name" (list :name name)
                          :on-success #'ignore))

(defun edn-bridge-sessions-fork (entry-id)
  "Begin a session that has this one's messages up to ENTRY-ID.
Interactively, that is the message at point; where point is in the draft,
choose the message."
  (interactive
   (list (or (and (not (edn-bridge-transcript-in-draft-p))
                  (get-text-property (point) 'edn-bridge-entry))
             (edn-bridge-sessions--choose-message)))
   edn-bridge-chat-mode)
  (edn-bridge-sessions--turn-to
   (edn-bridge-chat-current) "fork" (list :entry-id entry-id)
   (substitute-command-keys
    "This is the fork; \\[edn-bridge-sessions-switch] goes back")))

(defun edn-bridge-sessions--choose-message ()
  "Choose a message of this session and return its entry's id."
  (let* ((data (edn-bridge-rpc-call (edn-bridge-chat-current)
                                    "get_messages" nil))
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
  (edn-bridge-rpc-request
   (edn-bridge-chat-current) "export_html"
   (and file (list :path (file-local-name (expand-file-name file))))
   :on-success
   (lambda (data)
     (message "Exported to %s" (plist-get data :path)))))

(defun edn-bridge-sessions-copy-transcript ()
  "Put the transcript of this chat, as it is shown, on the kill ring."
  (interactive nil edn-bridge-chat-mode)
  (kill-new (substring-no-properties
             (edn-bridge-visible-unbroken (point-min)
                                          (edn-bridge-transcript-end))))
  (message "The transcript is on the kill ring"))

(let ((map edn-bridge-chat-mode-map))
  (define-key map (kbd "C-c C-s") #'edn-bridge-sessions-switch)
  (define-key map (kbd "C-c C-n") #'edn-bridge-sessions-new)
  (define-key map (kbd "C-c C-f") #'edn-bridge-sessions-fork))

(provide 'edn-bridge-sessions)

;;; edn-bridge-sessions.el ends here
