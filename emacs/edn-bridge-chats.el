;;; edn-bridge-chats.el --- All sessions of all projects  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; A list of the sessions of all projects: those that ask something come
;; first, then those that have finished or work, then the others, the newest
;; first.  RET goes to one.  There is no key that answers several questions:
;; an answer belongs to a question that was seen.

;;; Code:

(require 'cl-lib)
(require 'tabulated-list)
(require 'edn-bridge-attention)
(require 'edn-bridge-chat)
(require 'edn-bridge-sessions)
(require 'edn-bridge-view)
(require 'edn-bridge-work)

(cl-defstruct (edn-bridge-chats-row (:copier nil))
  "A session in the list."
  id name folder
  chat                       ; its buffer, or nil
  state                      ; what it does, in words, or nil
  rank                       ; the lower, the more it needs the user
  time)                      ; when it was used last, or nil

(edn-bridge-define-view-mode edn-bridge-chats-mode tabulated-list-mode "Chats"
  "Major mode of the list of the sessions of all projects."
  :keys (("RET" edn-bridge-chats-visit "open"))
  (setq tabulated-list-format
        ;; All columns are seen in a frame of 80.
        (let ((room (max 0 (min 30 (- (frame-width) 80)))))
          (vector '("State" 21 t)
                  (list "Session" (+ 22 (/ (* 2 room) 3)) t)
                  (list "Project" (+ 16 (/ room 3)) t)
                  '("Used" 0 t)))
        tabulated-list-padding 1
        tabulated-list-sort-key nil)
  (setq-local tabulated-list-use-header-line nil
              revert-buffer-function #'edn-bridge-chats--revert)
  (tabulated-list-init-header))

(defun edn-bridge-chats--conn ()
  "Return the connection of the chat that was used last and has one, or nil."
  (seq-some (lambda (buffer)
              (let ((conn (buffer-local-value 'edn-bridge-chat--conn buffer)))
                (and (edn-bridge-rpc-ready-p conn) conn)))
            (edn-bridge-chat-buffers)))

;;;###autoload
(defun edn-bridge-chats ()
  "List the sessions of all projects, those that need you first."
  (interactive)
  (let ((buffer (get-buffer-create "*edn-bridge chats*")))
    (with-current-buffer buffer
      (unless (derived-mode-p 'edn-bridge-chats-mode)
        (edn-bridge-chats-mode))
      (edn-bridge-chats--revert))
    (pop-to-buffer buffer)))

(defun edn-bridge-chats--revert (&rest _)
  "Ask for the sessions again and show them.
Without a connection, those of this Emacs alone are shown."
  (let ((buffer (current-buffer))
        (conn (edn-bridge-chats--conn)))
    (edn-bridge-chats--show nil)
    (when conn
      (edn-bridge-work-ask)
      (edn-bridge-rpc-request
       conn "list_sessions" '(:scope "all")
       :on-success
       (lambda (data)
         (when (buffer-live-p buffer)
           (with-current-buffer buffer
             (edn-bridge-chats--show (append (plist-get data :sessions) nil))
             (edn-bridge-sessions-say-missing data))))
       :on-error #'edn-bridge-chat-refused))))

(defvar-local edn-bridge-chats--slots nil
  "The sessions of this buffer as the bridge listed them.")

(defun edn-bridge-chats--show (slots)
  "Show SLOTS, sessions as the bridge lists them, with those of this Emacs.
Where SLOTS is nil, those that were listed before are shown."
  (setq edn-bridge-chats--slots (or slots edn-bridge-chats--slots)
        tabulated-list-entries
        (mapcar #'edn-bridge-chats--entry
                (seq-sort-by #'edn-bridge-chats-row-rank #'<
                             (edn-bridge-chats--rows edn-bridge-chats--slots))))
  (tabulated-list-print t)
  (edn-bridge-view-leave-heading))

(defun edn-bridge-chats--rows (slots)
  "Return a row for each of SLOTS, of the chats, and of what works anywhere."
  (let ((rows nil)
        (seen (make-hash-table :test #'equal)))
    (cl-flet ((add (id name folder time)
                (unless (or (null id) (gethash id seen))
                  (puthash id t seen)
                  (push (edn-bridge-chats--row id name folder time) rows))))
      (dolist (buffer (edn-bridge-chat-buffers))
        (with-current-buffer buffer
          (add edn-bridge-chat--session-id
               (or (edn-bridge-chat-get :session-display-name)
                   (edn-bridge-chat-get :session-name)
                   (edn-bridge-chat-name))
               default-directory nil)))
      (dolist (work (edn-bridge-work-list))
        (add (edn-bridge-work-id work) (edn-bridge-work-label work)
             (edn-bridge-work-folder work) nil))
      (dolist (slot slots)
        (when (let ((count (plist-get slot :message-count)))
                (or (not (integerp count)) (> count 0)))
          (add (plist-get slot :id) (edn-bridge-sessions-label slot)
               (plist-get slot :worktree-path)
               (edn-bridge-sessions-time slot)))))
    (nreverse rows)))

(defun edn-bridge-chats--row (id name folder time)
  "Return the row of the session ID, called NAME, in FOLDER, last used at TIME."
  (let* ((chat (seq-find (lambda (buffer)
                           (equal id (buffer-local-value
                                      'edn-bridge-chat--session-id buffer)))
                         (edn-bridge-chat-buffers)))
         (work (edn-bridge-work-find id))
         (need (edn-bridge-attention-state chat))
         (asks (or (eq need 'asks)
                   (and chat (> (with-current-buffer chat
                                  (edn-bridge-interact-pending))
                                0))
                   (and work (edn-bridge-work-asks work))))
         (running (or work
                      (and chat (with-current-buffer chat
                                  (edn-bridge-chat-running-p))))))
    (make-edn-bridge-chats-row
     :id id :name name :folder folder :chat chat :time time
     :state (cond (asks (if (and work (edn-bridge-work-asks work))
                            (edn-bridge-work-state work)
                          "waits for an answer"))
                  ((eq need 'finished) "finished")
                  (work (edn-bridge-work-state work))
                  (running "running")
                  (chat "idle"))
     :rank (cond (asks 0) ((eq need 'finished) 1) (running 2) (chat 3) (t 4)))))

(defun edn-bridge-chats--project (folder)
  "Return FOLDER, of a project, for its column; its end says most."
  (let* ((room (nth 1 (aref tabulated-list-format 2)))
         (over (- (string-width folder) room)))
    (if (> over 0)
        (concat "…" (substring folder (1+ over)))
      folder)))

(defun edn-bridge-chats--entry (row)
  "Return the table's entry of ROW."
  (list row
        (vector (propertize (or (edn-bridge-chats-row-state row) "")
                            'face (if (zerop (edn-bridge-chats-row-rank row))
                                      'edn-bridge-attention
                                    'default))
                (edn-bridge-visible-label (edn-bridge-chats-row-name row))
                (if-let ((folder (edn-bridge-chats-row-folder row)))
                    (edn-bridge-chats--project
                     (edn-bridge-visible-label
                      (abbreviate-file-name (directory-file-name folder))))
                  "")
                (or (edn-bridge-chats-row-time row) ""))))

(defun edn-bridge-chats-visit ()
  "Go to the session at point."
  (interactive nil edn-bridge-chats-mode)
  (let ((row (or (tabulated-list-get-id)
                 (user-error "There is no session on this line"))))
    (edn-bridge-work-visit
     (make-edn-bridge-work
      :id (edn-bridge-chats-row-id row)
      :folder (file-name-as-directory
               (or (edn-bridge-chats-row-folder row) default-directory))))))

(defun edn-bridge-chats--refresh (&rest _)
  "Show in the list what is known now, where it is seen."
  (let ((buffer (get-buffer "*edn-bridge chats*")))
    (when (and buffer (get-buffer-window buffer t))
      (with-current-buffer buffer
        (edn-bridge-chats--show nil)))))

(add-hook 'edn-bridge-work-hook #'edn-bridge-chats--refresh)
(add-hook 'edn-bridge-chat-turn-begin-hook #'edn-bridge-chats--refresh)
(add-hook 'edn-bridge-chat-turn-end-hook #'edn-bridge-chats--refresh)
(add-hook 'edn-bridge-interact-functions #'edn-bridge-chats--refresh)

(provide 'edn-bridge-chats)

;;; edn-bridge-chats.el ends here
