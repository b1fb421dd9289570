;;; edn-bridge-drafts.el --- Drafts survive the end of Emacs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; What stands in the draft of a chat when Emacs ends, or the chat is
;; killed, is kept in a file that only its user can read, and is the draft
;; again when a chat is opened on that session.  Whoever sends or deletes a
;; draft leaves none behind.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-chat)

(defcustom edn-bridge-drafts-file
  (locate-user-emacs-file "edn-bridge-drafts.eld")
  "File in which drafts are kept when Emacs ends, or nil to keep none."
  :type '(choice (const :tag "Keep none" nil) file)
  :group 'edn-bridge)

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
  (let ((file edn-bridge-drafts-file)
        (text (let ((print-length nil)
                    (print-level nil))
                (prin1-to-string (seq-take drafts edn-bridge-drafts--count)))))
    (if (null drafts)
        (when (file-exists-p file)
          (delete-file file))
      (with-file-modes #o600
        (let ((coding-system-for-write 'utf-8-emacs-unix))
          (write-region text nil file nil 'quiet)))
      (set-file-modes file #o600))))

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

(defun edn-bridge-drafts--on-exit ()
  "Keep the drafts of all chats."
  (edn-bridge-drafts--keep (edn-bridge-chat-buffers)))

(defun edn-bridge-drafts--on-kill ()
  "Keep the draft of this chat."
  (edn-bridge-drafts--keep (list (current-buffer))))

(defun edn-bridge-drafts--give-back ()
  "Make the draft that is kept for this chat's session its draft.
Where there is another, that stays."
  (when-let ((kept (and edn-bridge-drafts-file
                        edn-bridge-chat--session-id
                        (equal (edn-bridge-transcript-draft) "")
                        (edn-bridge-drafts--read)))
             (text (cdr (assoc edn-bridge-chat--session-id kept))))
    (edn-bridge-transcript-set-draft text)
    (edn-bridge-drafts--write
     (assoc-delete-all edn-bridge-chat--session-id kept))))

(defun edn-bridge-drafts--setup ()
  "Have this chat's draft kept."
  (add-hook 'kill-buffer-hook #'edn-bridge-drafts--on-kill nil t)
  ;; It is there from the first chat on.
  (add-hook 'kill-emacs-hook #'edn-bridge-drafts--on-exit))

(add-hook 'edn-bridge-chat-mode-hook #'edn-bridge-drafts--setup)
(add-hook 'edn-bridge-chat-ready-hook #'edn-bridge-drafts--give-back)

(provide 'edn-bridge-drafts)

;;; edn-bridge-drafts.el ends here
