;;; edn-bridge-example.el --- A frontend in thirty lines  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Another frontend on edn-bridge-rpc.el: M-x edn-bridge-example asks one
;; thing and lets the answer run into a buffer.

;;; Code:

(require 'edn-bridge-rpc)

(defun edn-bridge-example (question &optional program)
  "Ask QUESTION; the answer comes into a buffer, which is returned.
PROGRAM is the command of the bridge, a list of strings."
  (interactive "sAsk: ")
  (let ((buffer (generate-new-buffer "*answer*")))
    (edn-bridge-rpc-connect
     :command (or program '("edn-bridge" "serve"))
     :on-ready
     (lambda (conn)
       (edn-bridge-rpc-request
        conn "subscribe" '(:topics ["assistant/delta" "assistant/message"]))
       (edn-bridge-rpc-request conn "prompt" (list :message question)))
     :on-event
     (lambda (conn topic data)
       (pcase topic
         ("assistant/delta"
          (with-current-buffer buffer
            (insert (plist-get data :text))))
         ("assistant/message"
          (edn-bridge-rpc-close conn))))
     :on-close
     (lambda (conn reason)
       (message "%s %s" reason (edn-bridge-rpc-stderr conn))))
    (display-buffer buffer)
    buffer))

(provide 'edn-bridge-example)

;;; edn-bridge-example.el ends here
