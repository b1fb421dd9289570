;;; edn-bridge-batch.el --- One prompt without a terminal  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; For scripts: one turn in batch mode, its transcript on standard output,
;; by --eval \='(edn-bridge-batch "Say hello.")\='.

;;; Code:

(require 'edn-bridge-chat)
(require 'edn-bridge-messages)

(defvar edn-bridge-batch-timeout 600
  "How many seconds a turn may take.")

;;;###autoload
(defun edn-bridge-batch (prompt)
  "Send PROMPT, print the transcript as it comes, and end Emacs.
The status is 0.  Where something fails it is 1, and one line on standard
error says what failed."
  (let ((failure (condition-case err
                     (edn-bridge-batch--run prompt)
                   (error (error-message-string err)))))
    (when failure
      (edn-bridge-batch--complain failure))
    (kill-emacs (if failure 1 0))))

(defun edn-bridge-batch--run (prompt)
  "Run one turn with PROMPT; return nil, or what failed."
  (let* ((done nil)
         (failure nil)
         (started nil)
         (bol t)
         (deadline (+ (float-time) edn-bridge-batch-timeout))
         (emit (lambda (text)
                 (unless (equal text "")
                   (setq bol (eq (aref text (1- (length text))) ?\n))
                   (princ text)
                   (edn-bridge-batch--flush))))
         (fail (lambda (text)
                 (setq failure (or failure text)
                       done t)))
         (on-error (lambda (frame)
                     (funcall fail (plist-get frame :error-message))))
         (streamed nil)
         (conn
          (edn-bridge-rpc-connect
           :name "edn-bridge"
           :command (apply #'edn-bridge-program-command
                           "serve" edn-bridge-program-args)
           :on-ready
           (lambda (conn)
             (edn-bridge-rpc-request
              conn "subscribe"
              '(:topics ["session/updated" "assistant/delta"
                         "assistant/message" "tool/start" "tool/result"
                         "error"])
              :on-success #'ignore :on-error on-error)
             (edn-bridge-rpc-request
              conn "prompt" (list :message prompt)
              :on-success (lambda (_data) (setq started t))
              :on-error on-error))
           :on-event
           (lambda (_conn topic data)
             (pcase topic
               ("assistant/delta"
                (setq streamed t)
                (funcall emit (plist-get data :text)))
               ("assistant/message"
                (unless (equal (edn-bridge-chat-word (plist-get data :role))
                               "user")
                  (unless streamed
                    (funcall emit (edn-bridge-messages-text data)))
                  (setq streamed nil)
                  (unless bol (funcall emit "\n"))
                  (let ((message (plist-get data :error-message)))
                    (when (and (stringp message) (not (equal message "")))
                      (funcall fail message)))))
               ((or "tool/start" "tool/result")
                (unless bol (funcall emit "\n"))
                (when (equal topic "tool/start")
                  (funcall emit (format "[%s] %s\n"
                                        (plist-get data :tool-name)
                                        (plist-get data :call-summary)))))
               ("error"
                (funcall fail (plist-get data :error-message)))
               ("session/updated"
                (when (and started
                           (not (edn-bridge-edn-true-p
                                 (plist-get data :is-streaming))))
                  (setq done t)))))
           :on-close
           (lambda (conn reason)
             (let ((errors (edn-bridge-rpc-stderr conn 1)))
               (funcall fail (if (equal errors "")
                                 reason
                               (format "%s: %s" reason errors))))))))
    (princ (format "> %s\n\n" prompt))
    (edn-bridge-batch--flush)
    (while (and (not done) (< (float-time) deadline))
      (accept-process-output nil 0.2))
    (cond (failure)
          ((not done)
           (format "no end of the turn within %s seconds"
                   edn-bridge-batch-timeout))
          (t
           (setf (edn-bridge-rpc-connection-on-close conn) #'ignore)
           (edn-bridge-rpc-close conn)
           nil))))

(defun edn-bridge-batch--flush ()
  "Have what was printed written."
  (when (fboundp 'flush-standard-output)
    (flush-standard-output)))

(defun edn-bridge-batch--complain (text)
  "Print TEXT as one line on standard error."
  (princ (format "edn-bridge: %s\n"
                 (replace-regexp-in-string "[ \t]*\n[ \t\n]*" "; "
                                           (string-trim text)))
         #'external-debugging-output))

(provide 'edn-bridge-batch)

;;; edn-bridge-batch.el ends here
