;;; edn-bridge-buffers.el --- The files of a project in Emacs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Which buffers have files of the project, by their names alone: what a
;; call of the agent causes here must not ask the file system.  A buffer
;; without changes of its own follows its file, as the bridge tells of it
;; (see edn-bridge-files.el).  One with unsaved changes is left alone, and
;; the chat says so before a call is allowed that would change its file.

;; Which files a folder has is asked of git, without its index and without
;; what the repository configures to be run: a command of the agent may have
;; written that.  project.el is not asked: it evaluates .dir-locals.el too.

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

;;;; The files of a folder

(defconst edn-bridge-buffers--list-command
  "unset GIT_COMMON_DIR GIT_OBJECT_DIRECTORY GIT_NAMESPACE GIT_PREFIX
export GIT_OPTIONAL_LOCKS=0 GIT_ALLOW_PROTOCOL=none \\
  GIT_INDEX_FILE=/proc/edn-bridge-no-index
exec git -c core.fsmonitor=false -c core.hooksPath=/dev/null \\
  --git-dir=\"$1/.git\" --work-tree=\"$1\" \\
  ls-files -z --others --exclude-standard 2>/dev/null"
  "Shell command that lists the files below the current folder.
Its argument is the folder with the repository.  Without an index, each file
is one that git does not know, and nothing refers to an object, which could
have to be fetched.")

(defconst edn-bridge-buffers--list-size 20000000
  "How many bytes the names of all files of a folder may have.")

(defun edn-bridge-buffers-list-files (seconds)
  "Return the names of the files below `default-directory' that git lists.
Those that are ignored are left out.  After SECONDS that is an error.
Nothing that the repository configures is run."
  (let ((root (or (locate-dominating-file default-directory ".git")
                  (error "This folder is in no Git repository: use find")))
        (ended (time-add nil seconds)))
    (with-temp-buffer
      (let ((process
             (make-process
              :name "edn-bridge list files"
              :buffer (current-buffer)
              :command (list "sh" "-c" edn-bridge-buffers--list-command "sh"
                             (directory-file-name
                              (file-local-name (expand-file-name root))))
              :connection-type 'pipe
              :coding 'utf-8-unix
              :noquery t
              :file-handler t
              :sentinel #'ignore)))
        (unwind-protect
            (progn
              ;; Not by `call-process', for which no timer runs: git may wait
              ;; for ever for an ignore file that is a pipe.
              (while (process-live-p process)
                (accept-process-output process 0.1)
                (when (time-less-p ended nil)
                  (error "It took too long to list the files: use find"))
                (when (> (buffer-size) edn-bridge-buffers--list-size)
                  (error "There are too many files: use find")))
              ;; What it has left.
              (while (accept-process-output process 0.05))
              (unless (eq 0 (process-exit-status process))
                (error "The program git cannot list the files: use find"))
              (split-string (buffer-string) "\0" t))
          (when (process-live-p process)
            (kill-process process)))))))

(provide 'edn-bridge-buffers)

;;; edn-bridge-buffers.el ends here
