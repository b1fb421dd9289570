;;; edn-bridge-drafts.el --- Drafts survive any end of Emacs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; The draft of each chat is kept in a file that only its user can read,
;; soon after each change, and when the chat or Emacs ends.  It is the draft
;; again when a chat is opened on that session, also after Emacs was killed.
;; Whoever sends or deletes a draft leaves none behind.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-chat)

(defcustom edn-bridge-drafts-file
  (locate-user-emacs-file "edn-bridge-drafts.eld")
  "File in which the drafts of chats are kept, or nil to keep none."
  :type '(choice (const :tag "Keep none" nil) file)
  :group 'edn-bridge)

(defconst edn-bridge-drafts--seconds 2
  "How many seconds after the last change of a draft it is kept.")

(defvar-local edn-bridge-drafts--timer nil
  "Timer that keeps the draft of this chat, or nil.")

(defconst edn-bridge-drafts--count 50
  "How many drafts are kept.")

(defconst edn-bridge-drafts--size 100000
  "Longest draft, in characters, that is kept.")

(defun edn-bridge-drafts--read ()
  "Return the drafts that are kept, an alist by session, the newest first.
A file that was damaged has none."
  (let ((drafts (and edn-bridge-drafts-file
                     (file-readable-p edn-bridge-drafts-file)
                     (condition-case nil
                         (with-temp-buffer
                           (let ((coding-system-for-read 'utf-8-emacs-unix))
                             (insert-file-contents
                              edn-bridge-drafts-file nil 0
                              (* 2 edn-bridge-drafts--count
                                 edn-bridge-drafts--size)))
                           (read (current-buffer)))
                       (error nil)))))
    (and (proper-list-p drafts)
         (seq-filter (lambda (entry)
                       (and (stringp (car-safe entry))
                            (stringp (cdr-safe entry))))
                     drafts))))

(defun edn-bridge-drafts--write (drafts)
  "Keep DRAFTS, and no others."
  (let ((file (file-truename edn-bridge-drafts-file))
        (text (let ((print-length nil)
                    (print-level nil))
                (prin1-to-string (seq-take drafts edn-bridge-drafts--count)))))
    (if (null drafts)
        (when (file-exists-p file)
          (delete-file file))
      ;; Beside the old one, which is there until the new one is complete.
      (let ((new (make-temp-file (concat file "."))))
        (condition-case err
            (progn
              (let ((coding-system-for-write 'utf-8-emacs-unix))
                (write-region text nil new nil 'quiet))
              (set-file-modes new #o600)
              (rename-file new file t))
          (error
           (ignore-errors (delete-file new))
           (signal (car err) (cdr err))))))))

(defun edn-bridge-drafts--keep (buffers)
  "Keep the drafts of BUFFERS, which are chats."
  (when edn-bridge-drafts-file
    (let* ((kept (edn-bridge-drafts--read))
           (drafts kept))
      (dolist (buffer buffers)
        (with-current-buffer buffer
          (let ((session edn-bridge-chat--session-id)
                (text (edn-bridge-transcript-draft)))
            (when session
              (setq drafts (assoc-delete-all session (copy-sequence drafts)))
              (unless (or (string-blank-p text)
                          (> (length text) edn-bridge-drafts--size))
                (push (cons session (substring-no-properties text))
                      drafts))))))
      (unless (equal drafts kept)
        (condition-case err
            (edn-bridge-drafts--write drafts)
          ;; Nothing may keep Emacs from ending.
          (error (message "edn-bridge: the drafts were not kept: %s"
                          (error-message-string err))))))))

(defun edn-bridge-drafts--on-change (_start end _length)
  "Keep the draft of this chat soon, if text up to END is of the draft.
What is changed above the draft, which is not recorded for undo, is none."
  (when (and edn-bridge-drafts-file
             (not (eq buffer-undo-list t))
             (>= end (edn-bridge-transcript-draft-start)))
    (when edn-bridge-drafts--timer
      (cancel-timer edn-bridge-drafts--timer))
    (setq edn-bridge-drafts--timer
          (run-at-time edn-bridge-drafts--seconds nil
                       #'edn-bridge-drafts--keep-now (current-buffer)))))

(defun edn-bridge-drafts--keep-now (buffer)
  "Keep the draft of the chat BUFFER."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (setq edn-bridge-drafts--timer nil))
    (edn-bridge-drafts--keep (list buffer))))

(defun edn-bridge-drafts--on-exit ()
  "Keep the drafts of all chats."
  (edn-bridge-drafts--keep (edn-bridge-chat-buffers)))

(defun edn-bridge-drafts--on-kill ()
  "Keep the draft of this chat."
  (when edn-bridge-drafts--timer
    (cancel-timer edn-bridge-drafts--timer))
  (edn-bridge-drafts--keep (list (current-buffer))))

(defun edn-bridge-drafts--give-back ()
  "Make the draft that is kept for this chat's session its draft.
Where there is another, that stays."
  (when-let ((kept (and edn-bridge-drafts-file
                        edn-bridge-chat--session-id
                        (equal (edn-bridge-transcript-draft) "")
                        (edn-bridge-drafts--read)))
             (text (cdr (assoc edn-bridge-chat--session-id kept))))
    (edn-bridge-drafts--write
     (assoc-delete-all edn-bridge-chat--session-id kept))
    ;; It is kept again soon, unless it is sent before.
    (edn-bridge-transcript-set-draft text)))

(defun edn-bridge-drafts--setup ()
  "Have this chat's draft kept."
  (add-hook 'kill-buffer-hook #'edn-bridge-drafts--on-kill nil t)
  (add-hook 'after-change-functions #'edn-bridge-drafts--on-change nil t)
  ;; It is there from the first chat on.
  (add-hook 'kill-emacs-hook #'edn-bridge-drafts--on-exit))

(add-hook 'edn-bridge-chat-mode-hook #'edn-bridge-drafts--setup)
(add-hook 'edn-bridge-chat-ready-hook #'edn-bridge-drafts--give-back)

(provide 'edn-bridge-drafts)

;;; edn-bridge-drafts.el ends here
