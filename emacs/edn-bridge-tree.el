;;; edn-bridge-tree.el --- The sessions as a tree  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; A buffer with the sessions of a project, forks and subagents under the
;; sessions that they come from.  RET turns the chat to the one at point.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-chat)
(require 'edn-bridge-sessions)
(require 'edn-bridge-view)

(defvar-local edn-bridge-tree--chat nil
  "The chat buffer whose sessions are shown.")

(edn-bridge-define-view-mode edn-bridge-tree-mode special-mode "Sessions"
  "Major mode of the tree of a project's sessions."
  :keys (("RET" edn-bridge-tree-visit "open")
         ("v" edn-bridge-tree-read "view")
         ("r" edn-bridge-tree-rename "rename")
         ("a" edn-bridge-tree-archive "archive")
         ("A" edn-bridge-tree-toggle-archived)
         ("D" edn-bridge-tree-delete "delete")
         ("<mouse-2>" edn-bridge-tree-visit))
  (setq-local truncate-lines t
              revert-buffer-function #'edn-bridge-tree--revert))

(defun edn-bridge-tree ()
  "Show the sessions of this chat's project as a tree."
  (interactive nil edn-bridge-chat-mode)
  (edn-bridge-chat-current)
  (let ((chat (current-buffer))
        (buffer (get-buffer-create
                 (format "*%s sessions*" (edn-bridge-chat-name)))))
    (with-current-buffer buffer
      (edn-bridge-tree-mode)
      (setq edn-bridge-tree--chat chat)
      ;; Then it begins at the session of the chat.
      (let ((inhibit-read-only t))
        (erase-buffer))
      (edn-bridge-tree--revert))
    (pop-to-buffer buffer)))

(defvar-local edn-bridge-tree--archived nil
  "Non-nil if archived sessions are shown, too.")

(defun edn-bridge-tree--revert (&rest _)
  "Ask for the sessions again and show them."
  (unless (buffer-live-p edn-bridge-tree--chat)
    (user-error "The chat is gone"))
  (let ((buffer (current-buffer))
        (archived edn-bridge-tree--archived))
    (with-current-buffer edn-bridge-tree--chat
      (edn-bridge-rpc-request
       (edn-bridge-chat-current) "list_sessions"
       (append '(:scope "project") (and archived '(:archived? t)))
       :on-success
       (lambda (data)
         (when (buffer-live-p buffer)
           (with-current-buffer buffer
             (edn-bridge-tree--show
              (append (plist-get data :sessions) nil)
              (plist-get data :active-session-id))
             (edn-bridge-sessions-say-missing data))))))))

(defun edn-bridge-tree--show (slots active)
  "Show SLOTS, sessions as the bridge lists them; ACTIVE is the chat's."
  (let ((inhibit-read-only t)
        (line (and (> (point-max) (point-min)) (line-number-at-pos)))
        (children (make-hash-table :test #'equal))
        (ids (mapcar (lambda (slot) (plist-get slot :id)) slots))
        (shown (make-hash-table :test #'equal)))
    (dolist (slot slots)
      (let ((parent (plist-get slot :parent-session-id)))
        (push slot (gethash (and (member parent ids) parent) children))))
    (erase-buffer)
    (cl-labels ((show (slot depth)
                  (let ((id (plist-get slot :id)))
                    ;; A journal may name anything as its parent.
                    (unless (gethash id shown)
                      (puthash id t shown)
                      (edn-bridge-tree--insert
                       slot depth (equal id active)
                       (edn-bridge-sessions-fork-p slot slots))
                      (dolist (child (reverse (gethash id children)))
                        (show child (1+ depth)))))))
      (dolist (slot (reverse (gethash nil children)))
        (show slot 0)))
    (goto-char (point-min))
    (if line
        (forward-line (1- line))
      (edn-bridge-tree--go-to active))))

(defun edn-bridge-tree--go-to (id)
  "Go to the line of the session ID, in every window that shows this buffer."
  (goto-char (point-min))
  (when-let ((match (text-property-search-forward 'edn-bridge-session id
                                                  #'equal)))
    (goto-char (prop-match-beginning match))
    (dolist (window (get-buffer-window-list nil nil t))
      (set-window-point window (point)))))

(defun edn-bridge-tree--insert (slot depth active fork)
  "Insert the line of SLOT at DEPTH; with ACTIVE, as the chat's session.
FORK non-nil means that it is a fork."
  (let ((start (point)))
    (insert (make-string (* 2 depth) ?\s)
            (if active "● " "○ ")
            (propertize (edn-bridge-sessions-label slot)
                        'face (if active 'edn-bridge-title 'default))
            (if-let ((state (edn-bridge-sessions-state slot)))
                (propertize (concat "  " state) 'face 'edn-bridge-accent)
              "")
            (propertize (concat (if fork "  fork" "")
                                (if-let ((host (edn-bridge-sessions-host slot)))
                                    (concat "  " host)
                                  "")
                                (if (edn-bridge-edn-true-p
                                     (plist-get slot :archived))
                                    "  archived"
                                  "")
                                "  " (or (edn-bridge-sessions-time slot) ""))
                        'face 'edn-bridge-muted)
            "\n")
    (add-text-properties start (1- (point))
                         (list 'edn-bridge-session (plist-get slot :id)
                               'edn-bridge-slot slot
                               'mouse-face 'highlight
                               'follow-link t
                               'help-echo "RET, mouse-1: turn the chat to it"))))

(defun edn-bridge-tree-visit (&optional event)
  "Turn the chat to the session at point, or where the mouse EVENT was."
  (interactive (list last-nonmenu-event) edn-bridge-tree-mode)
  (when (mouse-event-p event)
    (mouse-set-point event))
  (let ((id (edn-bridge-tree--id))
        (chat edn-bridge-tree--chat))
    (unless (buffer-live-p chat)
      (user-error "The chat is gone"))
    (pop-to-buffer chat)
    (edn-bridge-sessions-switch id)))

(defun edn-bridge-tree--id ()
  "Return the id of the session at point."
  (or (get-text-property (line-beginning-position) 'edn-bridge-session)
      (user-error "There is no session on this line")))

(defun edn-bridge-tree--slot ()
  "Return the session at point, as the bridge lists it."
  (edn-bridge-tree--id)
  (get-text-property (line-beginning-position) 'edn-bridge-slot))

(defun edn-bridge-tree--reverter ()
  "Return a function that shows the sessions of this buffer again."
  (let ((buffer (current-buffer)))
    (lambda ()
      (when (buffer-live-p buffer)
        (with-current-buffer buffer
          (edn-bridge-tree--revert))))))

(defmacro edn-bridge-tree--in-chat (&rest body)
  "Run BODY in the chat buffer whose sessions are shown."
  (declare (indent 0) (debug t))
  `(progn
     (unless (buffer-live-p edn-bridge-tree--chat)
       (user-error "The chat is gone"))
     (with-current-buffer edn-bridge-tree--chat
       ,@body)))

(defun edn-bridge-tree-rename ()
  "Give the session at point another name."
  (interactive nil edn-bridge-tree-mode)
  (let* ((slot (edn-bridge-tree--slot))
         (then (edn-bridge-tree--reverter))
         (name (read-string "Name of this session: "
                            (or (plist-get slot :name)
                                (edn-bridge-sessions-label slot)))))
    (edn-bridge-tree--in-chat
      (if (equal (plist-get slot :id) edn-bridge-chat--session-id)
          (edn-bridge-sessions-rename name then)
        (edn-bridge-sessions-change slot "rename_session" (list :name name)
                                    "renamed" nil then)))))

(defun edn-bridge-tree-archive ()
  "Archive the session at point, or take it out of the archive."
  (interactive nil edn-bridge-tree-mode)
  (let* ((slot (edn-bridge-tree--slot))
         (archived (edn-bridge-edn-true-p (plist-get slot :archived)))
         (then (edn-bridge-tree--reverter)))
    (edn-bridge-tree--in-chat
      (edn-bridge-sessions-change
       slot "archive_session"
       (list :archived? (edn-bridge-edn-bool (not archived)))
       (if archived "not archived any more" "archived")
       nil then))))

(defun edn-bridge-tree-toggle-archived ()
  "Show archived sessions too, or hide them again."
  (interactive nil edn-bridge-tree-mode)
  (setq edn-bridge-tree--archived (not edn-bridge-tree--archived))
  (edn-bridge-tree--revert)
  (message (if edn-bridge-tree--archived
               "Archived sessions are shown"
             "Archived sessions are hidden")))

(defun edn-bridge-tree-delete ()
  "Delete the session at point, after a question."
  (interactive nil edn-bridge-tree-mode)
  (let ((slot (edn-bridge-tree--slot))
        (then (edn-bridge-tree--reverter)))
    (edn-bridge-tree--in-chat
      (edn-bridge-sessions-change
       slot "delete_session" nil "deleted"
       (format "Delete the session \"%s\" for good? "
               (edn-bridge-sessions-label slot))
       then))))

(defun edn-bridge-tree-read ()
  "Show the session at point in a buffer of its own."
  (interactive nil edn-bridge-tree-mode)
  (let ((id (edn-bridge-tree--id)))
    (with-current-buffer edn-bridge-tree--chat
      (edn-bridge-sessions-read id))))

(define-key edn-bridge-chat-mode-map (kbd "C-c C-w") #'edn-bridge-tree)

(provide 'edn-bridge-tree)

;;; edn-bridge-tree.el ends here
