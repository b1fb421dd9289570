;;; edn-bridge-shell.el --- Commands of the user, in the draft  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; A draft that begins with ! is a command for the shell in the session's
;; folder, which the bridge runs as the user.  Its output is shown in the
;; chat, and goes to the model with the next message; after !! it does not.
;;
;; The bridge sends the output at the end of the command, and has no op that
;; makes it a part of the conversation by itself.

;;; Code:

(require 'subr-x)
(require 'edn-bridge-chat)
(require 'edn-bridge-input)
(require 'edn-bridge-tools-output)

(defconst edn-bridge-shell--limit 20000
  "How many characters of an output go to the model; the last ones do.")

(defvar-local edn-bridge-shell--running nil
  "The command that runs, or nil.")

(defvar-local edn-bridge-shell--outputs nil
  "Texts about commands that go with the next message, last first.")

(defun edn-bridge-shell-run (command shared)
  "Run COMMAND in the shell, in the folder of this chat's session.
With SHARED non-nil, its output goes to the model with the next message."
  (let ((conn (edn-bridge-chat-current)))
    (when edn-bridge-shell--running
      (user-error "A command is running; %s ends it"
                  (substitute-command-keys "\\[edn-bridge-input-abort]")))
    (setq edn-bridge-shell--running command)
    (edn-bridge-shell--show-status)
    (edn-bridge-rpc-request
     conn "bash" (list :command command)
     :on-success
     (lambda (data)
       (edn-bridge-chat-with-buffer conn
         (edn-bridge-shell--ended command shared data)))
     :on-error
     (lambda (frame)
       (edn-bridge-chat-with-buffer conn
         (setq edn-bridge-shell--running nil)
         (edn-bridge-shell--show-status)
         (edn-bridge-chat-notice
          (or (plist-get frame :error-message) "The command was not run")
          'edn-bridge-error))))))

(defun edn-bridge-shell--ended (command shared data)
  "Show what COMMAND came to, by DATA; with SHARED, keep it for the model."
  (let ((output (or (plist-get data :output) ""))
        (outcome (edn-bridge-shell--outcome data)))
    (setq edn-bridge-shell--running nil)
    (edn-bridge-chat-notice
     (concat (if shared "! " "!! ") command
             (if outcome (concat "  (" outcome ")") ""))
     'edn-bridge-title)
    (unless (equal output "")
      (edn-bridge-transcript-add
        (edn-bridge-tools--insert-part output)))
    (when-let ((handle (plist-get data :handle)))
      (edn-bridge-chat-notice
       "The output is truncated." nil
       (list "Whole output"
             (lambda ()
               (interactive)
               (edn-bridge-tools-view-output handle)))))
    (when shared
      (push (edn-bridge-shell--text command output outcome)
            edn-bridge-shell--outputs))
    (edn-bridge-shell--show-status)))

(defun edn-bridge-shell--outcome (data)
  "Return how the command of DATA ended, or nil if it did so well."
  (let ((code (plist-get data :exit-code)))
    (cond ((edn-bridge-edn-true-p (plist-get data :cancelled)) "cancelled")
          ((and (integerp code) (/= code 0)) (format "exit %d" code)))))

(defun edn-bridge-shell--text (command output outcome)
  "Return what the model gets of COMMAND, its OUTPUT and its OUTCOME."
  (let* ((length (length output))
         (kept (if (> length edn-bridge-shell--limit)
                   (substring output (- length edn-bridge-shell--limit))
                 output))
         (fence (make-string
                 (max 3 (1+ (edn-bridge-input-longest-fence
                             (concat command "\n" kept))))
                 ?`)))
    (format "I ran this command%s:\n%ssh\n%s\n%s\n%s:\n%s\n%s\n%s"
            (if outcome (format " (%s)" outcome) "")
            fence command fence
            (if (> length edn-bridge-shell--limit)
                (format "The last %d of %d characters of its output"
                        edn-bridge-shell--limit length)
              "Its output")
            fence (string-trim-right kept "\n+") fence)))

(defun edn-bridge-shell--show-status ()
  "Say above the draft what runs, and what goes with the next message."
  (let ((count (length edn-bridge-shell--outputs)))
    (edn-bridge-chat-set-status
     'edn-bridge-shell
     (append
      (and edn-bridge-shell--running
           (list (concat "Running: "
                         (truncate-string-to-width
                          (edn-bridge-visible-label edn-bridge-shell--running)
                          50 nil nil "…")
                         (edn-bridge-faces-keys
                          "  (\\[edn-bridge-input-abort] ends it)"))))
      (and (> count 0)
           (list (if (= count 1)
                     "The output of 1 command goes with the next message"
                   (format "The outputs of %d commands go with the next message"
                           count))))))))

(defun edn-bridge-shell--take ()
  "Return what goes before the next message, and forget it."
  (let ((texts (reverse edn-bridge-shell--outputs)))
    (when texts
      (setq edn-bridge-shell--outputs nil)
      (edn-bridge-shell--show-status)
      (concat (string-join texts "\n\n") "\n\n"))))

(defun edn-bridge-shell--abort ()
  "End the command that runs."
  (when edn-bridge-shell--running
    (edn-bridge-rpc-request (edn-bridge-chat-current) "abort_bash" nil
                            :on-success #'ignore :on-error #'ignore)))

(defun edn-bridge-shell--forget (&rest _)
  "Forget the command that ran: its connection or its session is another."
  (setq edn-bridge-shell--running nil
        edn-bridge-shell--outputs nil)
  (edn-bridge-shell--show-status))

(edn-bridge-input-handle-shell #'edn-bridge-shell-run #'edn-bridge-shell--take)
(add-hook 'edn-bridge-input-abort-hook #'edn-bridge-shell--abort)
(edn-bridge-chat-handle "session/resumed" #'edn-bridge-shell--forget)
(edn-bridge-chat-handle "client/closed" #'edn-bridge-shell--forget)

(provide 'edn-bridge-shell)

;;; edn-bridge-shell.el ends here
