;;; edn-bridge-buffers.el --- The files of a project in Emacs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; The agent changes files on disk, and the user may have them open.  A
;; buffer without changes of its own follows its file.  One with unsaved
;; changes is left alone, and the chat says so: before a call is allowed
;; that would change its file, and after the file was changed.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-chat)
(require 'edn-bridge-tools)

(defcustom edn-bridge-buffers-revert t
  "Non-nil means that buffers follow the files that the agent changes.
Those with unsaved changes never do."
  :type 'boolean
  :group 'edn-bridge)

(defvar-local edn-bridge-buffers-shared nil
  "Non-nil if the agent works on the buffers of open files in this chat.")

(defun edn-bridge-buffers--file (path)
  "Return the full name of the file PATH, which a tool names, or nil."
  (and (stringp path)
       (not (equal path ""))
       (ignore-errors
         (let ((host (file-remote-p default-directory)))
           (expand-file-name (if (and host (file-name-absolute-p path))
                                 (concat host path)
                               path))))))

(defun edn-bridge-buffers-visiting (path)
  "Return the buffer that visits the file PATH, which a tool names, or nil.
Nothing is asked of a remote host."
  (when-let ((file (edn-bridge-buffers--file path)))
    (if (file-remote-p file)
        (get-file-buffer file)
      (find-buffer-visiting file))))

(defun edn-bridge-buffers-unsaved (paths)
  "Return those of PATHS whose buffers have unsaved changes.
PATHS is a sequence of files that the agent would change."
  (let ((seen nil))
    (seq-filter (lambda (path)
                  (let ((buffer (edn-bridge-buffers-visiting path)))
                    (and buffer
                         (buffer-modified-p buffer)
                         ;; One file may have two names.
                         (not (memq buffer seen))
                         (push buffer seen))))
                paths)))

;;;; After a call

(defun edn-bridge-buffers--on-result (data)
  "Have buffers follow the files that the call of DATA has changed.
A command may have changed any file of the folder, a tool for edits only
the one that it names."
  (when (edn-bridge-chat-mine-p data)
    (let ((path (edn-bridge-tools-path (plist-get data :tool-id))))
      (cond
       ((not (member (plist-get data :tool-name) '("edit" "write" "bash"))))
       (path
        (unless (edn-bridge-edn-true-p (plist-get data :is-error))
          (edn-bridge-buffers-follow path)))
       ((not (file-remote-p default-directory))
        (edn-bridge-buffers--follow-all))))))

(defun edn-bridge-buffers-follow (path)
  "Have the buffer that visits the file PATH, if there is one, follow it."
  (when-let ((buffer (edn-bridge-buffers-visiting path)))
    (edn-bridge-buffers--follow buffer path)))

(defun edn-bridge-buffers--follow-all ()
  "Have the buffers of files below this folder follow them.
Only those without unsaved changes: a command says nothing of which files
it meant to change."
  (let ((folder (expand-file-name default-directory)))
    (dolist (buffer (buffer-list))
      (let ((file (buffer-file-name buffer)))
        (when (and file
                   (string-prefix-p folder file)
                   (not (buffer-modified-p buffer)))
          (edn-bridge-buffers--follow buffer file))))))

(defun edn-bridge-buffers--follow (buffer path)
  "Have BUFFER follow its file, PATH, where that was changed on disk."
  (let ((chat (current-buffer)))
    (with-current-buffer buffer
      (cond
       ((verify-visited-file-modtime buffer))
       ((buffer-modified-p)
        (with-current-buffer chat
          (edn-bridge-chat-notice
           (format "%s was changed on disk, and its buffer has unsaved changes."
                   (edn-bridge-visible-label path))
           'edn-bridge-chat-error
           (list "Show the difference"
                 (lambda ()
                   (interactive)
                   (diff-buffer-with-file buffer))))))
       ((and edn-bridge-buffers-revert
             (file-exists-p buffer-file-name))
        (let ((inhibit-message t))
          (with-demoted-errors "edn-bridge: revert: %S"
            ;; Its modes stay, and no local variables are read.
            (revert-buffer t t t))))))))

(edn-bridge-chat-handle "tool/result" #'edn-bridge-buffers--on-result)

(provide 'edn-bridge-buffers)

;;; edn-bridge-buffers.el ends here
