;;; edn-bridge-ask.el --- Ask about what is in other buffers  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Commands for any buffer that bring something of it to the chat of its
;; project: a question about the region, an error, a file, an image.  A
;; quick question is asked beside the chat.

;;; Code:

(require 'edn-bridge-chat)
(require 'edn-bridge-input)
(require 'edn-bridge-markdown)
(require 'edn-bridge-side)
(require 'edn-bridge-view)

;; Who calls one of these commands first may have no chat yet, and nothing
;; of the package loaded but this file.
(autoload 'edn-bridge-chat-buffer "edn-bridge")

(defvar edn-bridge-ask--chat-function #'edn-bridge-chat-buffer
  "Function that returns the chat buffer of the current project.
It opens one where there is none.")

(defun edn-bridge-ask--chat ()
  "Return the current buffer if it is a chat, else the chat of its project."
  (if (edn-bridge-chat-buffer-p (current-buffer))
      (current-buffer)
    (funcall edn-bridge-ask--chat-function)))

(defun edn-bridge-ask--place (start end chat)
  "Return where the text between START and END stands, for the model of CHAT."
  (let ((name (if buffer-file-name
                  (edn-bridge-ask--relative buffer-file-name chat)
                (buffer-name)))
        (first (line-number-at-pos start))
        (last (line-number-at-pos (max start (1- end)))))
    (if (= first last)
        (format "%s:%d" name first)
      (format "%s:%d-%d" name first last))))

(defun edn-bridge-ask--relative (file chat)
  "Return the name of FILE relative to the folder of CHAT, where it is in it."
  (let ((folder (buffer-local-value 'default-directory chat)))
    (if (file-in-directory-p file folder)
        (file-relative-name file folder)
      (file-local-name (abbreviate-file-name file)))))

(defun edn-bridge-ask--quote (start end chat)
  "Return the text between START and END as a code block with its place.
CHAT is where it will stand."
  (let* ((text (buffer-substring-no-properties start end))
         (fence (make-string
                 (max 3 (1+ (edn-bridge-input-longest-fence text))) ?`)))
    (format "%s\n%s%s\n%s%s%s"
            (edn-bridge-ask--place start end chat)
            fence
            (if (eq major-mode 'fundamental-mode)
                ""
              (replace-regexp-in-string "\\(?:-ts\\)?-mode\\'" ""
                                        (symbol-name major-mode)))
            text
            (if (string-suffix-p "\n" text) "" "\n")
            fence)))

;;;###autoload
(defun edn-bridge-ask-region (start end question)
  "Ask QUESTION about the text between START and END in the project's chat."
  (interactive
   (progn
     (unless (use-region-p)
       (user-error "There is no region"))
     (list (region-beginning) (region-end)
           (read-string "Ask about the region: "))))
  (let* ((chat (edn-bridge-ask--chat))
         (text (concat question "\n\n"
                       (edn-bridge-ask--quote start end chat))))
    (display-buffer chat)
    (with-current-buffer chat
      (edn-bridge-input-send-text text "queue"))))

;;;###autoload
(defun edn-bridge-add-region (start end)
  "Add the text between START and END to the draft of the project's chat."
  (interactive "r")
  (let ((chat (edn-bridge-ask--chat)))
    (edn-bridge-ask--add-to-draft
     chat (concat (edn-bridge-ask--quote start end chat) "\n"))))

;;;###autoload
(defun edn-bridge-add-file (file)
  "Mention FILE, by default this buffer's, in the draft of the project's chat."
  (interactive
   (list (if (and buffer-file-name (not current-prefix-arg))
             buffer-file-name
           (read-file-name "Add file: " nil nil t))))
  (let ((chat (edn-bridge-ask--chat)))
    (edn-bridge-ask--add-to-draft
     chat (concat "@" (edn-bridge-ask--relative (expand-file-name file) chat)
                  " "))))

(defvar-local edn-bridge-ask--added-to nil
  "The chat to whose draft something of this buffer was added, or nil.")

(defun edn-bridge-ask--add-to-draft (chat text)
  "Add TEXT at the end of the draft of CHAT, and go there.
In the buffer that it was added from, a key then sends the draft too."
  (unless (edn-bridge-chat-buffer-p (current-buffer))
    (setq edn-bridge-ask--added-to chat)
    (edn-bridge-ask--added-mode))
  (with-current-buffer chat
    (save-excursion
      (goto-char (point-max))
      (cond ((= (point) (edn-bridge-transcript-draft-start)))
            ((string-search "\n" text)
             (unless (eq (char-before) ?\n)
               (insert "\n")))
            ((not (memq (char-before) '(?\s ?\n)))
             (insert " ")))
      (insert text)))
  (pop-to-buffer chat)
  (goto-char (point-max)))

;;;; Sending from where something was added

(defvar edn-bridge-ask-added-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "C-c RET") #'edn-bridge-ask-send-added)
    map)
  "Keymap of a buffer of which something waits in the draft of a chat.")

(define-minor-mode edn-bridge-ask--added-mode
  "Keys of a buffer of which something waits in the draft of a chat.
The mode ends when the draft is sent."
  :interactive nil
  :keymap edn-bridge-ask-added-map)

(defun edn-bridge-ask-send-added ()
  "Send the draft of the chat to which something of this buffer was added."
  (interactive)
  (let ((chat edn-bridge-ask--added-to))
    (edn-bridge-ask--added-mode -1)
    (unless (and chat (edn-bridge-chat-buffer-p chat))
      (user-error "The chat is gone"))
    (with-current-buffer chat
      (deactivate-mark)
      (edn-bridge-input-send))
    (message "Sent to %s" (buffer-name chat))))

(defun edn-bridge-ask--added-is-sent ()
  "Where the draft of this chat is sent, it need not be sent from elsewhere."
  (let ((chat (current-buffer)))
    (dolist (buffer (buffer-list))
      (when (eq (buffer-local-value 'edn-bridge-ask--added-to buffer) chat)
        (with-current-buffer buffer
          (setq edn-bridge-ask--added-to nil)
          (edn-bridge-ask--added-mode -1))))))

(add-hook 'edn-bridge-input-send-hook #'edn-bridge-ask--added-is-sent)

;;;; Errors, explanations

(declare-function flymake-diagnostics "flymake")
(declare-function flymake-diagnostic-text "flymake")
(declare-function flycheck-overlay-errors-at "ext:flycheck")
(declare-function flycheck-error-message "ext:flycheck")

(defun edn-bridge-ask--errors ()
  "Return what checkers say of the line at point, a list of strings."
  (seq-uniq
   (seq-filter
    #'stringp
    (append
     (and (bound-and-true-p flymake-mode)
          (mapcar #'flymake-diagnostic-text
                  (flymake-diagnostics (line-beginning-position)
                                       (line-end-position))))
     (and (bound-and-true-p flycheck-mode)
          (fboundp 'flycheck-overlay-errors-at)
          (mapcar #'flycheck-error-message
                  (flycheck-overlay-errors-at (point))))
     (and (derived-mode-p 'compilation-mode)
          (get-text-property (line-beginning-position) 'compilation-message)
          (list (string-trim (thing-at-point 'line t))))
     (when-let ((help (get-char-property (point) 'help-echo)))
       (and (stringp help)
            (not (bound-and-true-p flymake-mode))
            (not (bound-and-true-p flycheck-mode))
            (not (derived-mode-p 'compilation-mode))
            buffer-file-name
            (list help)))))))

(defconst edn-bridge-ask--around 5
  "How many lines before and after an error go with it.")

(defun edn-bridge-ask--subject ()
  "Return the bounds of what a command is about.
That is the region where it is active, else the definition at point, or
the lines around point."
  (cond ((use-region-p) (cons (region-beginning) (region-end)))
        ((and (derived-mode-p 'prog-mode) (bounds-of-thing-at-point 'defun)))
        (t (cons (line-beginning-position (- 1 edn-bridge-ask--around))
                 (line-beginning-position (+ 2 edn-bridge-ask--around))))))

(defun edn-bridge-ask--about (errors bounds chat)
  "Return ERRORS, a list of strings, and the text in BOUNDS, for CHAT."
  (concat (mapconcat (lambda (text) (concat "> " text "\n")) errors "")
          (if errors (format "(at line %d)\n\n" (line-number-at-pos nil t)) "")
          (edn-bridge-ask--quote (car bounds) (cdr bounds) chat)))

(defun edn-bridge-ask--send (text)
  "Send TEXT to the project's chat, and show that."
  (let ((chat (edn-bridge-ask--chat)))
    (display-buffer chat)
    (with-current-buffer chat
      (edn-bridge-input-send-text text "queue"))))

;;;###autoload
(defun edn-bridge-add-error ()
  "Add the error at point, with the code around it, to the project's chat."
  (interactive)
  (let ((errors (edn-bridge-ask--errors))
        (chat (edn-bridge-ask--chat)))
    (unless errors
      (user-error "There is no error at point"))
    (edn-bridge-ask--add-to-draft
     chat (concat (edn-bridge-ask--about
                   errors
                   (cons (line-beginning-position (- 1 edn-bridge-ask--around))
                         (line-beginning-position
                          (+ 2 edn-bridge-ask--around)))
                   chat)
                  "\n"))))

;;;###autoload
(defun edn-bridge-explain ()
  "Have the project's chat explain the region or the code at point.
Where a checker has found an error there, have that explained."
  (interactive)
  (let ((errors (edn-bridge-ask--errors)))
    (edn-bridge-ask--send
     (concat (if errors
                 "Explain this error, and do not change anything:\n\n"
               "Explain this code, and do not change anything:\n\n")
             (edn-bridge-ask--about errors (edn-bridge-ask--subject)
                                    (edn-bridge-ask--chat))))))

;;;###autoload
(defun edn-bridge-fix ()
  "Have the project's chat fix the error at point, or what is in the region."
  (interactive)
  (let ((errors (edn-bridge-ask--errors)))
    (unless (or errors (use-region-p))
      (user-error "There is no error at point, and no region"))
    (edn-bridge-ask--send
     (concat (if errors "Fix this error:\n\n" "Fix what is wrong here:\n\n")
             (edn-bridge-ask--about errors (edn-bridge-ask--subject)
                                    (edn-bridge-ask--chat))))))

;;;; A quick question

(defun edn-bridge-ask--folder ()
  "Return the folder of the chat of the current project."
  (buffer-local-value 'default-directory (edn-bridge-ask--chat)))

;;;###autoload
(defun edn-bridge-quick (question)
  "Ask QUESTION beside the chat, about the region where it is active.
A short answer is a message; a longer one has a buffer."
  (interactive
   (list (read-string (if (use-region-p)
                          "Ask quickly about the region: "
                        "Ask quickly: "))))
  (let* ((chat (edn-bridge-ask--chat))
         (folder (buffer-local-value 'default-directory chat))
         (text (if (use-region-p)
                   (concat question "\n\n"
                           (edn-bridge-ask--quote (region-beginning)
                                                  (region-end) chat))
                 question))
         (buffer (get-buffer-create "*edn-bridge answer*")))
    (edn-bridge-ask--prepare-answer buffer question folder)
    (edn-bridge-side-ask
     (concat "Answer briefly.\n\n" text)
     :folder folder
     :on-text (lambda (part) (edn-bridge-ask--add-answer buffer part))
     :on-done (lambda (answer reason)
                (edn-bridge-ask--end-answer buffer answer reason)))
    (message "Asked; the answer is on its way")))

(defun edn-bridge-ask--prepare-answer (buffer question folder)
  "Have BUFFER be about QUESTION, which is asked in FOLDER."
  (with-current-buffer buffer
    (edn-bridge-page-mode)
    (setq default-directory folder)
    (visual-line-mode)
    (edn-bridge-visible-setup)
    (edn-bridge-markdown-setup)
    (let ((inhibit-read-only t))
      (erase-buffer)
      (insert (propertize question 'face 'edn-bridge-title) "\n\n"))))

(defun edn-bridge-ask--add-answer (buffer part)
  "Add PART of an answer to BUFFER, and show that once it is a long answer."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (save-excursion
        (let ((inhibit-read-only t)
              (from (goto-char (point-max))))
          (insert (edn-bridge-visible-break part (current-column)))
          (edn-bridge-visible-region from (point))))
      (when (and (> (buffer-size) 400)
                 (not (get-buffer-window buffer t)))
        (display-buffer buffer)))))

(defun edn-bridge-ask--end-answer (buffer answer reason)
  "Show ANSWER in BUFFER, or REASON for which there is none."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (save-excursion
        (goto-char (point-min))
        (forward-line 2)
        (let ((inhibit-read-only t)
              (from (point)))
          (delete-region from (point-max))
          (insert (edn-bridge-visible-break (or answer reason) 0))
          (edn-bridge-markdown-region from (point-max))
          (edn-bridge-visible-region from (point-max)))))
    (cond
     ((get-buffer-window buffer t))
     ((or reason
          (and (< (length answer) (frame-width))
               (not (string-search "\n" (string-trim answer)))))
      (message "%s" (edn-bridge-visible-label
                     (string-trim (or answer reason)))))
     (t (display-buffer buffer)))))

;;;; Images

(defconst edn-bridge-ask--image-types
  '(("png" . "image/png") ("jpg" . "image/jpeg") ("jpeg" . "image/jpeg")
    ("gif" . "image/gif") ("webp" . "image/webp"))
  "MIME types by the extension of a file's name.")

;;;###autoload
(defun edn-bridge-add-image (file)
  "Send the image in FILE with the next message of the project's chat.
With a prefix argument, or FILE nil, drop the pending ones."
  (interactive (list (and (not current-prefix-arg)
                          (read-file-name "Image: " nil nil t))))
  (let ((file (and file (expand-file-name file))))
    (with-current-buffer (edn-bridge-ask--chat)
      (if file
          (edn-bridge-ask--attach-file file)
        (edn-bridge-input-set-images nil)
        (message "No image goes with the next message")))))

(defun edn-bridge-ask--attach-file (file)
  "Have the image in FILE go with this chat's next message."
  (let ((type (cdr (assoc (downcase (or (file-name-extension file) ""))
                          edn-bridge-ask--image-types))))
    (unless type
      (user-error "This is no image that models take: %s" file))
    (edn-bridge-ask-attach type
                           (with-temp-buffer
                             (set-buffer-multibyte nil)
                             (insert-file-contents-literally file)
                             (buffer-string))
                           (file-name-nondirectory file))))

(defun edn-bridge-ask-attach (mime-type data &optional name)
  "Have the image DATA, bytes of MIME-TYPE, go with this chat's next message.
NAME is its name for the user."
  (edn-bridge-input-set-images
   (cons (list :mime-type (format "%s" mime-type)
               :data (base64-encode-string data t))
         edn-bridge-input-images))
  (message "%s goes with the next message" (or name "The image")))

(defun edn-bridge-ask--on-drop (uri _action)
  "Take the image or file of URI that was dropped on a chat."
  (let ((file (dnd-get-local-file-name uri t)))
    (if (and file
             (assoc (downcase (or (file-name-extension file) ""))
                    edn-bridge-ask--image-types))
        (edn-bridge-add-image file)
      (when file
        (edn-bridge-add-file file)))
    'private))

(declare-function dnd-get-local-file-name "dnd")
(declare-function yank-media-handler "yank-media")
(defvar dnd-protocol-alist)

(defun edn-bridge-ask--setup ()
  "Have this chat take images that are yanked or dropped."
  (when (require 'dnd nil t)
    (setq-local dnd-protocol-alist
                (cons '("^file:" . edn-bridge-ask--on-drop)
                      dnd-protocol-alist)))
  (when (fboundp 'yank-media-handler)
    (yank-media-handler "image/.*" #'edn-bridge-ask-attach)))

(add-hook 'edn-bridge-chat-mode-hook #'edn-bridge-ask--setup)

(provide 'edn-bridge-ask)

;;; edn-bridge-ask.el ends here
