;;; edn-bridge-buffers.el --- The files of a project in Emacs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Which buffers have files of the project, by their names alone: what a
;; call of the agent causes here must not ask the file system.  A buffer
;; without changes of its own follows its file, as the bridge tells of it
;; (see edn-bridge-files.el).  One with unsaved changes is left alone, and
;; the chat says so before a call is allowed that would change its file.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-chat)

(defcustom edn-bridge-buffers-revert t
  "Non-nil means that buffers follow their files when the agent works.
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
Nothing is asked of the file system."
  (when-let ((file (edn-bridge-buffers--file path)))
    (or (seq-find (lambda (buffer) (equal (buffer-file-name buffer) file))
                  (buffer-list))
        (seq-find (lambda (buffer)
                    (equal (edn-bridge-buffers-true-name buffer) file))
                  (buffer-list)))))

(defun edn-bridge-buffers-true-name (buffer)
  "Return the name without links of the file that BUFFER visits, or nil.
It is that of the time when it was visited."
  (when-let ((name (buffer-local-value 'buffer-file-truename buffer)))
    (expand-file-name name)))

(defun edn-bridge-buffers-below-p (buffer folder)
  "Return non-nil if the file that BUFFER visits is below FOLDER.
Nothing is asked of the file system."
  (let ((file (buffer-file-name buffer))
        (true (edn-bridge-buffers-true-name buffer)))
    (and file
         (or (string-prefix-p folder file)
             (and true
                  (not (file-remote-p folder))
                  (string-prefix-p folder true))))))

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

(provide 'edn-bridge-buffers)

;;; edn-bridge-buffers.el ends here
