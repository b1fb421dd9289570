;;; edn-bridge-attention.el --- Which session needs me  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; `edn-bridge-attention-state' says whether a chat needs the user: it asks
;; something that no window shows, or has finished while the user was
;; elsewhere.  A global minor mode shows that in the mode line, in the tab
;; bar, in tab lines and by a notification, each of which can be turned off;
;; and a command goes there.  The bridge's own notifications are shown here
;; too.

;;; Code:

(require 'cl-lib)
(require 'tab-bar)
(require 'tab-line)
(require 'edn-bridge-chat)
(require 'edn-bridge-interact)
(require 'edn-bridge-work)

(defcustom edn-bridge-attention-notify-function
  #'edn-bridge-attention-notify
  "Function that tells the user about a session that needs them.
It is called with a title and a text while the chat is not in view."
  :type 'function
  :group 'edn-bridge)

(defcustom edn-bridge-attention-views '(mode-line tab-bar tab-line notification)
  "Where `edn-bridge-attention-mode' says which sessions need the user."
  :type '(set (const :tag "The mode line" mode-line)
              (const :tag "The names of tabs in the tab bar" tab-bar)
              (const :tag "The names of buffers in tab lines" tab-line)
              (const :tag "A notification or a message" notification))
  :set (lambda (variable value)
         (set-default variable value)
         (when (fboundp 'edn-bridge-attention--update)
           (edn-bridge-attention--update)))
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
        (add-hook 'window-buffer-change-functions
                  #'edn-bridge-attention--on-view)
        (add-function :around tab-bar-tab-name-format-function
                      #'edn-bridge-attention--tab-bar-name)
        (add-function :around tab-line-tab-name-format-function
                      #'edn-bridge-attention--tab-line-name)
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
    (remove-hook 'window-buffer-change-functions
                 #'edn-bridge-attention--on-view)
    (remove-function tab-bar-tab-name-format-function
                     #'edn-bridge-attention--tab-bar-name)
    (remove-function tab-line-tab-name-format-function
                     #'edn-bridge-attention--tab-line-name)
    (remove-function after-focus-change-function
                     #'edn-bridge-attention--on-focus))
  (edn-bridge-attention--update))

(defun edn-bridge-attention-state (buffer)
  "Return why the chat BUFFER needs the user, or nil.
It is `asks' where a question waits that no window shows, and `finished'
where a turn ended which the user did not see."
  (when (edn-bridge-chat-buffer-p buffer)
    (with-current-buffer buffer
      (cond ((edn-bridge-interact-hidden-p) 'asks)
            (edn-bridge-attention--unseen 'finished)))))

(defun edn-bridge-attention--in (state)
  "Return the chats whose `edn-bridge-attention-state' is STATE."
  (seq-filter (lambda (buffer) (eq state (edn-bridge-attention-state buffer)))
              (edn-bridge-chat-buffers)))

(defun edn-bridge-attention--asking ()
  "Return the chats with questions that wait, also those that a window shows."
  (seq-filter (lambda (buffer)
                (buffer-local-value 'edn-bridge-interact--questions buffer))
              (edn-bridge-chat-buffers)))

(defun edn-bridge-attention--mark (buffers)
  "Return the mark of the one of BUFFERS that needs the user most, or nothing."
  (let ((states (mapcar #'edn-bridge-attention-state buffers)))
    (cond ((memq 'asks states)
           (propertize "? " 'face 'edn-bridge-attention))
          ((memq 'finished states) "✓ ")
          (t ""))))

(defun edn-bridge-attention--with-mark (mark name)
  "Return NAME, of a tab, with MARK before it, which has the face of NAME too."
  (let ((mark (copy-sequence mark)))
    (when (and (> (length mark) 0) (> (length name) 0))
      (add-face-text-property 0 (length mark)
                              (get-text-property 0 'face name) t mark)
      (dolist (property '(tab local-map keymap close-tab follow-link))
        (when-let ((value (get-text-property 0 property name)))
          (put-text-property 0 (length mark) property value mark))))
    (concat mark name)))

(defun edn-bridge-attention--tab-bar-name (function tab index)
  "Return what FUNCTION makes of TAB at INDEX, with a mark if it needs the user."
  (let ((name (funcall function tab index)))
    (if (and (memq 'tab-bar edn-bridge-attention-views) (stringp name))
        (edn-bridge-attention--with-mark
         (edn-bridge-attention--mark (edn-bridge-attention--tab-buffers tab))
         name)
      name)))

(defun edn-bridge-attention--tab-buffers (tab)
  "Return the buffers that the windows of TAB, of the tab bar, show."
  (if (eq (car tab) 'current-tab)
      (mapcar #'window-buffer (window-list nil 'no-minibuffer))
    (let ((buffers nil))
      (cl-labels ((walk (state)
                    (when (consp state)
                      (when (and (eq (car state) 'buffer)
                                 (stringp (car-safe (cdr state))))
                        (push (get-buffer (cadr state)) buffers))
                      (while (consp state)
                        (walk (pop state))))))
        (walk (alist-get 'ws tab)))
      (delq nil buffers))))

(defun edn-bridge-attention--tab-line-name (function tab tabs)
  "Return what FUNCTION makes of TAB among TABS, with a mark if it needs the user."
  (let ((name (funcall function tab tabs))
        (buffer (if (bufferp tab) tab (alist-get 'buffer tab))))
    (if (and (memq 'tab-line edn-bridge-attention-views)
             (stringp name) (bufferp buffer))
        (edn-bridge-attention--with-mark
         (edn-bridge-attention--mark (list buffer)) name)
      name)))

(defun edn-bridge-attention--update ()
  "Bring the mode line, the tab bar and tab lines up to date."
  (let* ((shown (memq 'mode-line edn-bridge-attention-views))
         (asking (if shown (length (edn-bridge-attention--in 'asks)) 0))
         (finished (if shown (length (edn-bridge-attention--in 'finished)) 0)))
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
  (when (and title
             (memq 'notification edn-bridge-attention-views)
             (not (edn-bridge-attention--in-view-p)))
    (funcall edn-bridge-attention-notify-function (buffer-name)
             (edn-bridge-visible-label title)))
  (edn-bridge-attention--update))

(defun edn-bridge-attention--on-turn-end ()
  "Note that a turn of this chat ended."
  (unless (edn-bridge-attention--in-view-p)
    (setq edn-bridge-attention--unseen t)
    (when (memq 'notification edn-bridge-attention-views)
      (funcall edn-bridge-attention-notify-function
               (buffer-name) "The turn is done")))
  (edn-bridge-attention--update))

(defun edn-bridge-attention--on-view (frame)
  "Note that the user sees the buffer of the selected window of FRAME."
  (when (framep frame)
    (with-current-buffer (window-buffer (frame-selected-window frame))
      (when (and edn-bridge-attention--unseen
                 (frame-focus-state frame))
        (setq edn-bridge-attention--unseen nil)))
    (edn-bridge-attention--update)))

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
        (finished (car (edn-bridge-attention--in 'finished)))
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
