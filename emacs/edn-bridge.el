;;; edn-bridge.el --- Chat with a coding agent over EDN lines  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;; Version: 0.1.0
;; Package-Requires: ((emacs "28.1"))
;; Keywords: tools, processes, convenience

;;; Commentary:

;; The Emacs frontend of edn-bridge, a program that runs the sessions of a
;; coding agent and is spoken to in lines of EDN.
;;
;;   M-x edn-bridge          opens the chat of the current project
;;
;; The program is found by `edn-bridge-program'.

;;; Code:

(require 'project)
(require 'edn-bridge-chat)
(require 'edn-bridge-complete)
(require 'edn-bridge-interact)
(require 'edn-bridge-sessions)
(require 'edn-bridge-tools)

;;;; Opening a chat

(defun edn-bridge-directory ()
  "Return the folder that a chat started here is about.
It is the root of the project, or else `default-directory'."
  (let ((project (project-current)))
    (file-name-as-directory
     (expand-file-name
      (if project (edn-bridge--project-root project) default-directory)))))

(defun edn-bridge--project-root (project)
  "Return the root folder of PROJECT."
  (if (fboundp 'project-root)
      (project-root project)
    (car (with-no-warnings (project-roots project)))))

;;;###autoload
(defun edn-bridge (&optional new)
  "Go to the chat of the current project, opening it if there is none.
With a prefix argument NEW, open another one."
  (interactive "P")
  (let* ((directory (edn-bridge-directory))
         (buffer (or (and (not new)
                          (car (edn-bridge-chat-buffers directory)))
                     (edn-bridge--open directory))))
    (pop-to-buffer-same-window buffer)
    buffer))

(defun edn-bridge--open (directory)
  "Return a new chat buffer of DIRECTORY, which is connecting."
  (let ((buffer (generate-new-buffer
                 (format "*edn-bridge: %s*"
                         (file-name-nondirectory
                          (directory-file-name directory))))))
    (with-current-buffer buffer
      (setq default-directory directory)
      (edn-bridge-chat-mode)
      (edn-bridge-chat-connect))
    buffer))

(provide 'edn-bridge)

;;; edn-bridge.el ends here
