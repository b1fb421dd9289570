;;; edn-bridge-daemon.el --- Look at the daemon, and end it  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; A command for the daemon that runs the sessions of all projects: what it
;; does, its log, and its end.

;;; Code:

(require 'edn-bridge-chat)
(require 'edn-bridge-sessions)
(require 'edn-bridge-view)

(defconst edn-bridge-daemon--actions
  '(("status" nil "what runs and waits, and where" "status")
    ("log" nil "the end of its log" "log")
    ("restart"
     "Have a new daemon take over what runs in this one? "
     "a new one takes over" "restart")
    ("stop" "End the daemon, unless something runs in it? "
     "ends it, unless something runs" "stop")
    ("stop now" "End the daemon, and with it all that runs in it? "
     "ends it and what runs" "stop" "--now"))
  "What can be done: names, questions before it, descriptions and arguments.")

;;;###autoload
(defun edn-bridge-daemon (action)
  "Show the status of the daemon, or do ACTION with it.
Interactively, choose ACTION; what ends something is asked for."
  (interactive
   (let ((completion-extra-properties
          (list :annotation-function
                (lambda (name)
                  (concat "  " (nth 2 (assoc name
                                             edn-bridge-daemon--actions)))))))
     (list (completing-read "Daemon (status): " edn-bridge-daemon--actions
                            nil t nil nil "status"))))
  (pcase-let ((`(,_name ,question ,_description . ,arguments)
               (or (assoc action edn-bridge-daemon--actions)
                   (user-error "There is no action %s" action))))
    (when (or (null question) (yes-or-no-p question))
      (let* ((command (apply #'edn-bridge-program-command
                             (append (edn-bridge-sessions--state-args)
                                     '("daemon") arguments)))
             (folder default-directory)
             (buffer (get-buffer-create "*edn-bridge daemon*"))
             (status nil))
        (with-current-buffer buffer
          (edn-bridge-page-mode)
          (setq default-directory folder)
          (when (member action '("status" "log"))
            (setq-local revert-buffer-function
                        (lambda (&rest _) (edn-bridge-daemon action))))
          (edn-bridge-visible-setup)
          (let ((inhibit-read-only t))
            (erase-buffer)
            (setq status (apply #'process-file (car command) nil t nil
                                (cdr command)))
            (edn-bridge-visible-region (point-min) (point-max))
            (goto-char (point-min))))
        (when (and (equal (car arguments) "stop") (eql status 0))
          (edn-bridge-daemon--stay-away (file-remote-p folder)))
        (pop-to-buffer buffer)))))

(defun edn-bridge-daemon--stay-away (host)
  "Have the chats of HOST, or nil, not start another daemon by themselves."
  (dolist (buffer (edn-bridge-chat-buffers))
    (with-current-buffer buffer
      (when (equal host (file-remote-p default-directory))
        (edn-bridge-chat-stay-away)))))

(provide 'edn-bridge-daemon)

;;; edn-bridge-daemon.el ends here
