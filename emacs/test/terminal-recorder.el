;;; terminal-recorder.el --- Write down which keys and commands are used  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Loaded by the Emacs that the test of all keys types into.  It writes into
;; the file that EDN_BRIDGE_RECORD names, a form a line:
;;
;;   (key COMMAND KEY)   a command was called by a key
;;   (done COMMAND)      a command of the package came to its end

;;; Code:

(require 'edn-bridge)

(defun terminal-recorder-write (form)
  "Add FORM as a line to the record."
  (let ((coding-system-for-write 'utf-8-unix))
    (write-region (concat (prin1-to-string form) "\n") nil
                  (getenv "EDN_BRIDGE_RECORD") t 'quiet)))

(defun terminal-recorder-key ()
  "Record by which key which command is called."
  (when (symbolp this-command)
    (terminal-recorder-write
     (list 'key this-command (key-description (this-command-keys-vector))))))

(add-hook 'pre-command-hook #'terminal-recorder-key)

(mapatoms
 (lambda (symbol)
   (when (and (string-prefix-p "edn-bridge" (symbol-name symbol))
              (commandp symbol))
     (advice-add symbol :after
                 (lambda (&rest _)
                   (terminal-recorder-write (list 'done symbol)))))))

;;; terminal-recorder.el ends here
