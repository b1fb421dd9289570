;;; edn-bridge-attention.el --- Which session needs me  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; A global minor mode that says, in the mode line and by a notification,
;; that a session asks something or has finished while the user was
;; elsewhere; and a command that goes there.  The bridge's own
;; notifications are shown here too.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-chat)
(require 'edn-bridge-interact)
(require 'edn-bridge-work)

(defcustom edn-bridge-attention-notify-function
  #'edn-bridge-attention-notify
  "Function that tells the user about a session that needs them.
It is called with a title and a text while the chat is not in view."
  :type 'function
  :group 'edn-bridge)

(defvar edn-bridge-attention--lighter ""
  "What the mode line shows.")
(put 'edn-bridge-attention--lighter 'risky-local-variable t)

(defvar-local edn-bridge-attention--unseen nil
  "Non-nil in a chat whose turn ended while it was not in view.")

;;;###autoload
(define-minor-mode edn-bridge-attention-mode
  "Show in the mode line which sessions need the user."
  :global t
  :group 'edn-bridge
  (if edn-bridge-attention-mode
      (progn
        (add-to-list 'global-mode-string
                     '(:eval edn-bridge-attention--lighter) t)
        (add-hook 'edn-bridge-interact-functions
                  #'edn-bridge-attention--on-question)
        (add-hook 'edn-bridge-chat-turn-end-hook
                  #'edn-bridge-attention--on-turn-end)
        (add-hook 'window-selection-change-functions
                  #'edn-bridge-attention--on-view)
        (add-function :after after-focus-change-function
                      #'edn-bridge-attention--on-focus))
    (setq global-mode-string
          (remove '(:eval edn-bridge-attention--lighter) global-mode-string))
    (remove-hook 'edn-bridge-interact-functions
                 #'edn-bridge-attention--on-question)
    (remove-hook 'edn-bridge-chat-turn-end-hook
                 #'edn-bridge-attention--on-turn-end)
    (remove-hook 'window-selection-change-functions
                 #'edn-bridge-attention--on-view)
    (remove-function after-focus-change-function
                     #'edn-bridge-attention--on-focus))
  (edn-bridge-attention--update))

(defun edn-bridge-attention--asking ()
  "Return the chats with questions that wait."
  (seq-filter (lambda (buffer)
                (buffer-local-value 'edn-bridge-interact--questions buffer))
              (edn-bridge-chat-buffers)))

(defun edn-bridge-attention--finished ()
  "Return the chats that finished a turn which was not seen."
  (seq-filter (lambda (buffer)
                (buffer-local-value 'edn-bridge-attention--unseen buffer))
              (edn-bridge-chat-buffers)))

(defun edn-bridge-attention--update ()
  "Bring the mode line up to date."
  (let ((asking (length (edn-bridge-attention--asking)))
        (finished (length (edn-bridge-attention--finished))))
    (setq edn-bridge-attention--lighter
          (concat (if (zerop asking)
                      ""
                    (propertize (format " edn:%d?" asking)
                                'face 'edn-bridge-attention
                                'help-echo "Sessions that ask something"))
                  (if (zerop finished)
                      ""
                    (propertize (format " edn:%d✓" finished)
                                'help-echo "Sessions that have finished"))))
    (force-mode-line-update t)))

(defun edn-bridge-attention--in-view-p ()
  "Return non-nil if the user sees the current buffer.
Without the focus, as far as Emacs knows it, the user does not."
  (and (eq (window-buffer (selected-window)) (current-buffer))
       (frame-focus-state)))

(defun edn-bridge-attention--on-question (title)
  "Tell the user of the question TITLE in this chat; nil: one is settled."
  (when (and title (not (edn-bridge-attention--in-view-p)))
    (funcall edn-bridge-attention-notify-function (buffer-name)
             (edn-bridge-visible-label title)))
  (edn-bridge-attention--update))

(defun edn-bridge-attention--on-turn-end ()
  "Note that a turn of this chat ended."
  (unless (edn-bridge-attention--in-view-p)
    (setq edn-bridge-attention--unseen t)
    (funcall edn-bridge-attention-notify-function
             (buffer-name) "The turn is done"))
  (edn-bridge-attention--update))

(defun edn-bridge-attention--on-view (frame)
  "Note that the user sees the buffer of the selected window of FRAME."
  (with-current-buffer (window-buffer (frame-selected-window frame))
    (when (and edn-bridge-attention--unseen
               (frame-focus-state frame))
      (setq edn-bridge-attention--unseen nil)
      (edn-bridge-attention--update))))

(defun edn-bridge-attention--on-focus ()
  "Note what the user sees as a frame gets the focus."
  (mapc #'edn-bridge-attention--on-view (frame-list)))

(declare-function notifications-notify "notifications")

(defun edn-bridge-attention-notify (title text)
  "Tell the user TEXT about the chat TITLE.
By the desktop where Emacs is not in focus and can do so, else by a message."
  (unless (and (display-graphic-p)
               (not (eq (frame-focus-state) t))
               (featurep 'dbusbind)
               (require 'notifications nil t)
               (ignore-errors (notifications-notify :title title :body text)))
    (message "%s: %s" title text)))

;;;###autoload
(defun edn-bridge-attention-next ()
  "Go to a session that asks something, or else has finished.
Those of this Emacs come first, but what the mode line names before them."
  (interactive)
  (let ((asking (car (edn-bridge-attention--asking)))
        (finished (car (edn-bridge-attention--finished)))
        (waiting (car (edn-bridge-work-waiting))))
    (cond
     ((and waiting (edn-bridge-attention--clicked-p))
      (edn-bridge-work-visit waiting))
     (asking
      (pop-to-buffer asking)
      (edn-bridge-interact-next))
     (waiting
      (edn-bridge-work-visit waiting))
     (finished
      (pop-to-buffer finished))
     (t
      (user-error "No session needs you")))))

(defun edn-bridge-attention--clicked-p ()
  "Return non-nil if the mode line was clicked on."
  (mouse-event-p last-command-event))

;;;; The bridge's notifications

(defun edn-bridge-attention--on-notification (data)
  "Show DATA of `ui/notification'."
  (let ((level (edn-bridge-chat-word (plist-get data :level)))
        (text (plist-get data :message)))
    (if (member level '("error" "warning"))
        (edn-bridge-chat-notice text 'edn-bridge-error)
      (message "%s: %s" (buffer-name) (edn-bridge-visible-label text)))))

(defun edn-bridge-attention--on-diagnostic (data)
  "Show DATA of `diagnostic' in the echo area.
That text was joined on its way here is no news: Emacs says what it
has shown, so that the bridge does just that."
  (unless (equal (plist-get data :code) "delivery/coalesced")
    (let ((inhibit-message (edn-bridge-attention--typing-p)))
      (message "%s: %s" (buffer-name) (plist-get data :message)))))

(defun edn-bridge-attention--typing-p ()
  "Return non-nil if a message would be in the way."
  (active-minibuffer-window))

(edn-bridge-chat-handle "ui/notification"
                        #'edn-bridge-attention--on-notification)
(edn-bridge-chat-handle "diagnostic" #'edn-bridge-attention--on-diagnostic)

(provide 'edn-bridge-attention)

;;; edn-bridge-attention.el ends here
