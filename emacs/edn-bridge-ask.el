;;; edn-bridge-ask.el --- Ask about what is in other buffers  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Commands for any buffer that bring something of it to the chat of its
;; project: a question about the region, a file, an image.

;;; Code:

(require 'edn-bridge-chat)
(require 'edn-bridge-input)

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
                 (max 3 (1+ (edn-bridge-ask--longest-fence text))) ?`)))
    (format "%s\n%s%s\n%s%s%s"
            (edn-bridge-ask--place start end chat)
            fence
            (if (eq major-mode 'fundamental-mode)
                ""
              (string-remove-suffix "-mode" (symbol-name major-mode)))
            text
            (if (string-suffix-p "\n" text) "" "\n")
            fence)))

(defun edn-bridge-ask--longest-fence (text)
  "Return the length of the longest run of backquotes in TEXT."
  (let ((longest 0)
        (start 0))
    (while (string-match "`+" text start)
      (setq longest (max longest (- (match-end 0) (match-beginning 0)))
            start (match-end 0)))
    longest))

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

(defun edn-bridge-ask--add-to-draft (chat text)
  "Add TEXT at the end of the draft of CHAT, and show it."
  (with-current-buffer chat
    (save-excursion
      (goto-char (point-max))
      (unless (or (= (point) (edn-bridge-transcript-draft-start))
                  (memq (char-before) '(?\s ?\n)))
        (insert (if (string-search "\n" text) "\n" " ")))
      (insert text)))
  (let ((window (display-buffer chat)))
    (when window
      (set-window-point window (with-current-buffer chat (point-max))))))

;;;; Images

(defconst edn-bridge-ask--image-types
  '(("png" . "image/png") ("jpg" . "image/jpeg") ("jpeg" . "image/jpeg")
    ("gif" . "image/gif") ("webp" . "image/webp"))
  "MIME types by the extension of a file's name.")

;;;###autoload
(defun edn-bridge-add-image (file)
  "Send the image in FILE with the next message of the project's chat.
With a prefix argument, or FILE nil, take back those that were to be sent."
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
NAME is what the user is told that it is."
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
