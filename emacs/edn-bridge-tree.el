;;; edn-bridge-tree.el --- The sessions as a tree  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; A buffer with the sessions of a project, forks and subagents under the
;; sessions that they come from.  RET turns the chat to the one at point.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-chat)
(require 'edn-bridge-sessions)

(defvar-local edn-bridge-tree--chat nil
  "The chat buffer whose sessions are shown.")

(defvar edn-bridge-tree-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'edn-bridge-tree-visit)
    (define-key map [mouse-2] #'edn-bridge-tree-visit)
    (define-key map "n" #'next-line)
    (define-key map "p" #'previous-line)
    map)
  "Keymap of `edn-bridge-tree-mode'.")

(define-derived-mode edn-bridge-tree-mode special-mode "Sessions"
  "Major mode of the tree of a project's sessions.

\\{edn-bridge-tree-mode-map}"
  :group 'edn-bridge
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
      (edn-bridge-tree--revert))
    (pop-to-buffer buffer)))

(defun edn-bridge-tree--revert (&rest _)
  "Ask for the sessions again and show them."
  (let ((buffer (current-buffer)))
    (with-current-buffer edn-bridge-tree--chat
      (edn-bridge-rpc-request
       (edn-bridge-chat-current) "list_sessions" '(:scope "project")
       :on-success
       (lambda (data)
         (when (buffer-live-p buffer)
           (with-current-buffer buffer
             (edn-bridge-tree--show
              (append (plist-get data :sessions) nil)
              (plist-get data :active-session-id)))))))))

(defun edn-bridge-tree--show (slots active)
  "Show SLOTS, sessions as the bridge lists them; ACTIVE is the chat's."
  (let ((inhibit-read-only t)
        (line (line-number-at-pos))
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
                      (edn-bridge-tree--insert slot depth (equal id active))
                      (dolist (child (reverse (gethash id children)))
                        (show child (1+ depth)))))))
      (dolist (slot (reverse (gethash nil children)))
        (show slot 0)))
    (goto-char (point-min))
    (forward-line (1- line))))

(defun edn-bridge-tree--insert (slot depth active)
  "Insert the line of SLOT at DEPTH; with ACTIVE, as the chat's session."
  (let ((start (point)))
    (insert (make-string (* 2 depth) ?\s)
            (if active "● " "○ ")
            (propertize (edn-bridge-sessions-label slot)
                        'face (if active 'bold 'default))
            (if (edn-bridge-edn-true-p (plist-get slot :is-streaming))
                (propertize "  running" 'face 'warning)
              "")
            (propertize (concat "  " (or (edn-bridge-sessions-time slot) ""))
                        'face 'shadow)
            "\n")
    (add-text-properties start (1- (point))
                         (list 'edn-bridge-session (plist-get slot :id)
                               'mouse-face 'highlight
                               'follow-link t
                               'help-echo "RET, mouse-1: turn the chat to it"))))

(defun edn-bridge-tree-visit (&optional event)
  "Turn the chat to the session at point, or where the mouse EVENT was."
  (interactive (list last-nonmenu-event) edn-bridge-tree-mode)
  (when (mouse-event-p event)
    (mouse-set-point event))
  (let ((id (get-text-property (line-beginning-position) 'edn-bridge-session))
        (chat edn-bridge-tree--chat))
    (unless id
      (user-error "There is no session on this line"))
    (unless (buffer-live-p chat)
      (user-error "The chat is gone"))
    (pop-to-buffer chat)
    (edn-bridge-sessions-switch id)))

(define-key edn-bridge-chat-mode-map (kbd "C-c C-w") #'edn-bridge-tree)

(provide 'edn-bridge-tree)

;;; edn-bridge-tree.el ends here
