;;; edn-bridge-actions.el --- Choices that the bridge leaves to Emacs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; A slash command that needs a choice (/model, /resume ...) is answered by
;; the bridge with a frontend action: a list to choose from in whatever way
;; the frontend has.  Here that is `completing-read'.
;;
;; It is opened at once only where the user is waiting for it: in the chat's
;; own window, with no other minibuffer open and no key pressed since.
;; Otherwise a button is shown, and the action waits.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-chat)
(require 'edn-bridge-complete)

(defun edn-bridge-actions--on-requested (data)
  "Offer the choice that DATA of `ui/frontend-action-requested' asks for."
  (let ((conn edn-bridge-chat--conn))
    (edn-bridge-rpc-later
     (lambda () (edn-bridge-actions--offer conn data)))))

(defun edn-bridge-actions--offer (conn data)
  "Have the user choose as DATA asks for on CONN, now or by a button."
  (if (edn-bridge-actions--awaited-p)
      (edn-bridge-actions--choose conn data)
    (let* ((done nil)
           (choose (lambda ()
                     (interactive)
                     (if done
                         (message "That choice was made")
                       (setq done t)
                       (edn-bridge-actions--choose conn data)))))
      (edn-bridge-chat-notice
       (edn-bridge-actions--prompt (plist-get data :ui/action))
       nil
       (list "Choose" choose)))))

(defun edn-bridge-actions--awaited-p ()
  "Return non-nil if the user is waiting in this chat for what comes."
  (and (not noninteractive)
       (not (active-minibuffer-window))
       (not (input-pending-p))
       (eq (window-buffer (selected-window)) (current-buffer))))

(defun edn-bridge-actions--prompt (action)
  "Return the prompt of ACTION."
  (or (plist-get action :ui/prompt) "Choose"))

(defun edn-bridge-actions--choose (conn data)
  "Have the user choose as DATA asks for, and tell the bridge by CONN."
  (let* ((action (plist-get data :ui/action))
         (items (append (plist-get action :ui/items) nil)))
    (condition-case err
        (let ((item (edn-bridge-complete-choose
                     (concat (edn-bridge-actions--prompt action) ": ")
                     (edn-bridge-actions--category action)
                     (edn-bridge-actions--order items action)
                     (lambda (item) (or (plist-get item :ui.item/label) ""))
                     #'edn-bridge-actions--annotate)))
          (edn-bridge-actions--report
           conn data "submitted"
           (list :value (plist-get item :ui.item/value))))
      (quit
       (edn-bridge-actions--report conn data "cancelled" nil))
      (error
       (edn-bridge-actions--report
        conn data "failed"
        (list :error-message (error-message-string err)))))))

(defun edn-bridge-actions--category (action)
  "Return the completion category of what ACTION offers."
  (pcase (edn-bridge-chat-word (plist-get action :ui/action-name))
    ("select-model" 'edn-bridge-model)
    ("select-thinking-level" 'edn-bridge-thinking-level)
    ((or "select-session" "select-resume-session") 'edn-bridge-session)
    (_ 'edn-bridge-option)))

(defun edn-bridge-actions--order (items action)
  "Return ITEMS in the order that ACTION wants them in."
  (if (eq (plist-get action :ui/order) :preserve)
      items
    (sort (copy-sequence items)
          (lambda (a b)
            (string-lessp (or (plist-get a :ui.item/label) "")
                          (or (plist-get b :ui.item/label) ""))))))

(defun edn-bridge-actions--annotate (item)
  "Return the annotation of ITEM."
  (let ((meta (plist-get item :ui.item/meta)))
    (cond ((stringp meta) meta)
          ((consp meta)
           (mapconcat (lambda (value)
                        (if (stringp value)
                            value
                          (edn-bridge-edn-print-string value)))
                      (cl-loop for (_key value) on meta by #'cddr
                               when value collect value)
                      "  ")))))

(defun edn-bridge-actions--report (conn data status more)
  "Tell the bridge by CONN that the action of DATA has STATUS.
MORE is a property list of what else there is to tell."
  (edn-bridge-rpc-request
   conn "frontend_action_result"
   (append (list :request-id (plist-get data :request-id)
                 :action-name (edn-bridge-chat-word
                               (plist-get (plist-get data :ui/action)
                                          :ui/action-name))
                 :status status)
           more)
   :on-success #'ignore))

(edn-bridge-chat-handle "ui/frontend-action-requested"
                        #'edn-bridge-actions--on-requested)

(provide 'edn-bridge-actions)

;;; edn-bridge-actions.el ends here
