;;; edn-bridge-context.el --- What the person looks at  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Tells the bridge, before something is sent, which file of the chat's
;; folder the person was in last, and what is selected there.  Nothing is
;; told at other times, and nothing of files elsewhere.  What would be told
;; stands above the draft.

;;; Code:

(require 'seq)
(require 'edn-bridge-chat)
(require 'edn-bridge-input)
(require 'edn-bridge-buffers)

(defcustom edn-bridge-context-share t
  "Non-nil means that messages tell the agent which file you are in.
They name the last visited file of the chat's folder, and contain its
active region."
  :type 'boolean
  :group 'edn-bridge)

(defconst edn-bridge-context--text-limit 4000
  "Maximum number of characters of the region in a message.")

(defvar-local edn-bridge-context--sent nil
  "The last sent context, as a cons of connection and context.")

(defun edn-bridge-context-buffer ()
  "Return the buffer whose file, below this folder, was used last, or nil."
  (let ((folder (expand-file-name default-directory)))
    (seq-find (lambda (buffer)
                (edn-bridge-buffers-below-p buffer folder))
              (buffer-list))))

(defun edn-bridge-context-language (mode)
  "Return what the language of MODE, a major mode, is called, or nil."
  (unless (eq mode 'fundamental-mode)
    (replace-regexp-in-string "\\(?:-ts\\)?-mode\\'" ""
                              (symbol-name mode))))

(defun edn-bridge-context--place (position)
  "Return POSITION as a line and a column, both counted from 0."
  (save-excursion
    (goto-char position)
    (list :line (1- (line-number-at-pos nil t))
          :column (- (point) (line-beginning-position)))))

(defun edn-bridge-context--selection (path)
  "Return what is selected in this buffer, the file PATH, or nil."
  (when (and transient-mark-mode mark-active
             (/= (mark) (point)))
    (let ((start (region-beginning))
          (end (region-end)))
      (append
       (list :path path
             :range (list :start (edn-bridge-context--place start)
                          :end (edn-bridge-context--place end)))
       (and (<= (- end start) edn-bridge-context--text-limit)
            (list :selected-text
                  (buffer-substring-no-properties start end)))))))

(defun edn-bridge-context ()
  "Return the editor context of the current chat."
  (let ((folder (file-local-name (expand-file-name default-directory)))
        (buffer (edn-bridge-context-buffer)))
    (append
     (list :cwd folder :workspace-root folder)
     (when buffer
       (with-current-buffer buffer
         (let* ((path (file-local-name buffer-file-name))
                (language (edn-bridge-context-language major-mode))
                (selection (edn-bridge-context--selection path)))
           (append
            (list :active-file
                  (append (list :path path)
                          (and language (list :language-id language))))
            (and selection (list :selection selection)))))))))

;;;; What the user sees of it

(defconst edn-bridge-context--hint
  (propertize "  (C-c C-d: not)" 'face 'edn-bridge-muted)
  "What follows the line above the draft.")

(defun edn-bridge-context-toggle ()
  "Have the agent get your file and selection in this chat, or not."
  (interactive nil edn-bridge-chat-mode)
  (setq-local edn-bridge-context-share (not edn-bridge-context-share))
  (edn-bridge-context--show)
  (message (if edn-bridge-context-share
               "The agent gets your file and selection"
             "The agent does not get your file and selection")))

(defun edn-bridge-context--label ()
  "Return the editor context of this chat as a line, or nil."
  (let ((folder default-directory)
        (buffer (and edn-bridge-context-share (edn-bridge-context-buffer))))
    (when buffer
      (with-current-buffer buffer
        (concat "The agent gets "
                (edn-bridge-visible-label
                 (string-remove-prefix folder buffer-file-name))
                (edn-bridge-context--selection-label)
                edn-bridge-context--hint)))))

(defun edn-bridge-context--selection-label ()
  "Return the description of this buffer's selection."
  (if (not (and transient-mark-mode mark-active (/= (mark) (point))))
      ""
    (let* ((start (region-beginning))
           (end (region-end))
           (first (line-number-at-pos start t))
           ;; A region that ends where a line begins has none of that line.
           (last (line-number-at-pos (1- end) t)))
      (concat (if (= first last)
                  (format ", line %d" first)
                (format ", lines %d to %d" first last))
              (if (<= (- end start) edn-bridge-context--text-limit)
                  " with their text"
                "")))))

(defun edn-bridge-context--show (&rest _)
  "Show the editor context above the draft of this chat."
  (let ((label (edn-bridge-context--label)))
    (edn-bridge-chat-set-status 'edn-bridge-context
                                (and label (list label)))))

(defun edn-bridge-context--on-selection (window)
  "Show the editor context after WINDOW with a chat is selected."
  (when (and (window-live-p window)
             (eq window (frame-selected-window (window-frame window))))
    (with-current-buffer (window-buffer window)
      (edn-bridge-context--show))))

(defun edn-bridge-context--setup ()
  "Make this chat show its editor context."
  (add-hook 'window-selection-change-functions
            #'edn-bridge-context--on-selection nil t))

(defun edn-bridge-context--tell ()
  "Tell the bridge of this chat what the person looks at, if that is new."
  (edn-bridge-context--show)
  (when edn-bridge-context-share
    (let* ((conn edn-bridge-chat--conn)
           (context (edn-bridge-context))
           (sent (cons conn context)))
      (unless (equal context (and (eq conn (car edn-bridge-context--sent))
                                  (cdr edn-bridge-context--sent)))
        (setq edn-bridge-context--sent sent)
        ;; A bridge that does not know this is no worse off.
        (edn-bridge-rpc-request conn "context_update" context
                                :on-success #'ignore :on-error #'ignore)))))

(define-key edn-bridge-chat-mode-map (kbd "C-c C-d") #'edn-bridge-context-toggle)

(add-hook 'edn-bridge-input-send-hook #'edn-bridge-context--tell)
(add-hook 'edn-bridge-chat-mode-hook #'edn-bridge-context--setup)

(provide 'edn-bridge-context)

;;; edn-bridge-context.el ends here
