;;; edn-bridge-undo.el --- Undo what a turn did to files  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; The bridge keeps what the files were before a turn changed them with its
;; tools for that.  Here those turns are undone and redone.  What commands
;; changed is not among it, and the chat says so.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-chat)
(require 'edn-bridge-input)
(require 'edn-bridge-buffers)

(defun edn-bridge-undo (&optional steps)
  "Undo what the last turn that changed files did to them.
With a prefix argument STEPS, that of as many turns."
  (interactive "p" edn-bridge-chat-mode)
  (edn-bridge-undo--request "undo" (list :steps (max 1 (or steps 1)))))

(defun edn-bridge-redo (&optional steps)
  "Do again to files what was undone last.
With a prefix argument STEPS, that of as many turns."
  (interactive "p" edn-bridge-chat-mode)
  (edn-bridge-undo--request "redo" (list :steps (max 1 (or steps 1)))))

(defun edn-bridge-undo--request (op params)
  "Send OP, \"undo\" or \"redo\", with PARAMS, and show what it did."
  (let ((conn (edn-bridge-chat-current)))
    (edn-bridge-rpc-request
     conn op params
     :on-success
     (lambda (data)
       (edn-bridge-chat-with-buffer conn
         (edn-bridge-chat-notice
          (or (plist-get data :message)
              (format "%s: %d files" op (length (plist-get data :files)))))))
     :on-error
     (lambda (frame)
       (edn-bridge-chat-with-buffer conn
         (edn-bridge-undo--refused op params frame))))))

(defun edn-bridge-undo--refused (op params frame)
  "Say why OP with PARAMS was refused, as the error FRAME tells.
Where others have changed files since, those can be left alone."
  (let ((text (or (plist-get frame :error-message) ""))
        (changed (append (plist-get (plist-get frame :data) :changed) nil)))
    (if (not (and changed
                  (not (equal 0 (plist-get (plist-get frame :data) :others)))
                  (equal (plist-get frame :error-code) "request/file-changed")))
        (edn-bridge-chat-notice text 'edn-bridge-error)
      (edn-bridge-chat-notice
       (concat text
               (unless (seq-every-p (lambda (path) (string-search path text))
                                    changed)
                 (concat "\n" (string-join (seq-take changed 50) "\n"))))
       'edn-bridge-error
       (list (format "%s the others" (capitalize op))
             (lambda ()
               (interactive)
               (edn-bridge-undo--request
                op (append params '(:skip-changed t)))))))))

(defun edn-bridge-undo--on-undone (data)
  "Tell which files DATA of `files/undone' names if another client asked for it.
The buffers of these follow as `file/changed' says."
  (when (edn-bridge-chat-mine-p data)
    (let ((files (seq-remove (lambda (file)
                               (equal (plist-get file :action) "skipped"))
                             (plist-get data :files))))
      (unless (or (null files)
                  (edn-bridge-rpc-event-id edn-bridge-chat--conn))
        (edn-bridge-chat-notice
         (format "%s elsewhere: %s"
                 (if (edn-bridge-edn-true-p (plist-get data :undone))
                     "Undone"
                   "Redone")
                 (mapconcat (lambda (file)
                              (edn-bridge-visible-label (plist-get file :path)))
                            (seq-take files 20) ", "))))
      (when-let ((unsaved (edn-bridge-buffers-unsaved
                           (mapcar (lambda (file) (plist-get file :path))
                                   (plist-get data :files)))))
        (edn-bridge-chat-notice
         (format "That concerns the files on disk.  The buffers of these have unsaved changes, which stay: %s"
                 (mapconcat #'edn-bridge-visible-label
                            (seq-take unsaved 20) ", "))
         'edn-bridge-error)))))

(edn-bridge-chat-handle "files/undone" #'edn-bridge-undo--on-undone)
(edn-bridge-input-handle "undo" #'edn-bridge-undo)
(edn-bridge-input-handle "redo" #'edn-bridge-redo)

(let ((map edn-bridge-chat-mode-map))
  (define-key map (kbd "C-c C-u") #'edn-bridge-undo)
  (define-key map (kbd "C-c M-u") #'edn-bridge-redo))

(provide 'edn-bridge-undo)

;;; edn-bridge-undo.el ends here
