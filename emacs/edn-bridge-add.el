;;; edn-bridge-add.el --- Add what is at hand to a chat  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; More commands that bring something of another buffer to the chat of its
;; project, beside those of edn-bridge-ask.el: what is at point, whatever that
;; is, the last output of a shell, a screenshot.  And a buffer in which a long
;; draft is written.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-ask)
(require 'edn-bridge-chat)
(require 'edn-bridge-input)

;;;; What is at point

(declare-function dired-get-marked-files "dired")

;;;###autoload
(defun edn-bridge-add-at-point ()
  "Add what is at point to the draft of the project's chat.
That is the region, or else the error at point, the marked files of Dired,
the image, the last output of a shell, the definition at point, or the file."
  (interactive)
  (cond
   ((use-region-p)
    (edn-bridge-add-region (region-beginning) (region-end)))
   ((edn-bridge-ask--errors)
    (edn-bridge-add-error))
   ((derived-mode-p 'dired-mode)
    (mapc #'edn-bridge-add--file (dired-get-marked-files)))
   ((edn-bridge-add--shell-p (current-buffer))
    (edn-bridge-add-output))
   ((and (derived-mode-p 'prog-mode) (bounds-of-thing-at-point 'defun))
    (let ((bounds (bounds-of-thing-at-point 'defun)))
      (edn-bridge-add-region (car bounds) (cdr bounds))))
   (buffer-file-name
    (edn-bridge-add--file buffer-file-name))
   (t
    (user-error "There is nothing to add here"))))

(defun edn-bridge-add--file (file)
  "Send the image FILE with the next message, or mention another FILE."
  (if (assoc (downcase (or (file-name-extension file) ""))
             edn-bridge-ask--image-types)
      (edn-bridge-add-image file)
    (edn-bridge-add-file file)))

;;;; The last output of a shell

(defconst edn-bridge-add--limit 20000
  "How many characters of an output are added; the last ones are.")

(defvar comint-last-input-start)
(defvar comint-last-input-end)
(defvar eshell-last-input-start)
(defvar eshell-last-input-end)
(defvar eshell-last-output-end)

(defun edn-bridge-add--shell-p (buffer)
  "Return non-nil if BUFFER is that of a shell, a compilation or the like."
  (with-current-buffer buffer
    (and (derived-mode-p 'comint-mode 'eshell-mode 'compilation-mode)
         ;; Emacs fills the log of its compiler by itself.
         (not (derived-mode-p 'emacs-lisp-compilation-mode)))))

(defun edn-bridge-add--last-output ()
  "Return the last command of this buffer, or nil, and its output."
  (cl-flet ((line-start (place)
              (save-excursion
                (goto-char place)
                (let ((inhibit-field-text-motion t))
                  (line-beginning-position))))
            (text (start end)
              (buffer-substring-no-properties start (max start end))))
    (cond
     ((derived-mode-p 'compilation-mode)
      (cons nil (text (point-min) (point-max))))
     ((derived-mode-p 'eshell-mode)
      (cons (string-trim (text eshell-last-input-start eshell-last-input-end))
            (text eshell-last-input-end (line-start eshell-last-output-end))))
     (t
      (let ((process (get-buffer-process (current-buffer))))
        (cons (string-trim (text comint-last-input-start comint-last-input-end))
              (text comint-last-input-end
                    (if process
                        (line-start (process-mark process))
                      (point-max)))))))))

;;;###autoload
(defun edn-bridge-add-output ()
  "Add the last output of a shell to the draft of the project's chat.
It is that of this buffer, if it is one of a shell, Eshell or a compilation,
or else of the one that was used last."
  (interactive)
  (let* ((buffer (or (seq-find #'edn-bridge-add--shell-p
                               (cons (current-buffer) (buffer-list)))
                     (user-error "There is no buffer of a shell")))
         (chat (edn-bridge-ask--chat)))
    (pcase-let* ((`(,command . ,output)
                  (with-current-buffer buffer
                    (edn-bridge-add--last-output)))
                 (output (string-trim output "\n+"))
                 (cut (> (length output) edn-bridge-add--limit))
                 (output (if cut
                             (substring output (- (length output)
                                                  edn-bridge-add--limit))
                           output)))
      (when (string-blank-p output)
        (user-error "There is no output in %s" (buffer-name buffer)))
      (let ((fence (make-string
                    (max 3 (1+ (edn-bridge-input-longest-fence output))) ?`)))
        (edn-bridge-ask--add-to-draft
         chat
         (format "%s of %s:\n%s\n%s\n%s\n"
                 (if cut
                     (format "The last %d characters of the output"
                             edn-bridge-add--limit)
                   "Output")
                 (if (member command '(nil ""))
                     (buffer-name buffer)
                   (format "`%s`" command))
                 fence output fence))))))

;;;; A screenshot

(defcustom edn-bridge-add-screenshot-commands
  '(("gnome-screenshot" "-a" "-f" file)
    ("spectacle" "-r" "-b" "-n" "-o" file)
    ("maim" "-s" file)
    ("scrot" "-s" file)
    ("grim" file)
    ("import" file)
    ("screencapture" "-i" file))
  "Commands that take a screenshot; the first that is installed is used.
The symbol `file' stands for the name of the PNG file to be written."
  :type '(repeat (repeat (choice string (const file))))
  :group 'edn-bridge)

;;;###autoload
(defun edn-bridge-add-screenshot ()
  "Take a screenshot and send it with the next message of the project's chat."
  (interactive)
  (let* ((chat (edn-bridge-ask--chat))
         (command (or (seq-find (lambda (command)
                                  (executable-find (car command)))
                                edn-bridge-add-screenshot-commands)
                      (user-error "No program for screenshots is installed; see `edn-bridge-add-screenshot-commands'")))
         (file (concat (make-temp-name
                        (expand-file-name "edn-bridge-screenshot-"
                                          temporary-file-directory))
                       ".png")))
    (message "Choose what the screenshot is to show")
    (make-process
     :name "edn-bridge screenshot"
     :command (mapcar (lambda (part) (if (eq part 'file) file part)) command)
     :connection-type 'pipe
     :noquery t
     :sentinel (lambda (process _change)
                 (unless (process-live-p process)
                   (edn-bridge-add--attach-screenshot chat file))))))

(defun edn-bridge-add--attach-screenshot (chat file)
  "Have the screenshot in FILE go with the next message of CHAT; delete FILE."
  (unwind-protect
      (cond
       ((not (file-exists-p file))
        (message "No screenshot was taken"))
       ((buffer-live-p chat)
        (with-current-buffer chat
          (edn-bridge-ask--attach-file file))))
    (when (file-exists-p file)
      (delete-file file))))

;;;; A buffer for a long draft

(defvar-local edn-bridge-add--composes nil
  "The chat whose draft is written in this buffer.")

(defvar edn-bridge-compose-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "C-c C-c") #'edn-bridge-compose-send)
    (define-key map (kbd "C-c C-k") #'edn-bridge-compose-leave)
    map)
  "Keymap of a buffer in which a draft is written.")

(define-minor-mode edn-bridge-add--compose-mode
  "Keys of a buffer in which a draft is written."
  :interactive nil
  :keymap edn-bridge-compose-map)

(declare-function markdown-mode "ext:markdown-mode")

(defun edn-bridge-compose ()
  "Write the draft of this chat in a buffer of its own.
It is in `markdown-mode' where that is installed."
  (interactive nil edn-bridge-chat-mode)
  (let ((chat (current-buffer))
        (text (edn-bridge-transcript-draft))
        (buffer (get-buffer-create (format "*%s draft*" (edn-bridge-chat-name)))))
    (with-current-buffer buffer
      (unless edn-bridge-add--composes
        (if (require 'markdown-mode nil t)
            (markdown-mode)
          (text-mode))
        (edn-bridge-add--compose-mode)
        (setq default-directory (buffer-local-value 'default-directory chat)
              edn-bridge-add--composes chat
              header-line-format
              (substitute-command-keys
               "\\<edn-bridge-compose-map> \\[edn-bridge-compose-send] sends it, \\[edn-bridge-compose-leave] goes back to the chat with it"))
        (insert text)
        (set-buffer-modified-p nil)))
    (pop-to-buffer buffer)))

(defun edn-bridge-add--end-compose ()
  "Make the text of this buffer the draft of its chat, and go there."
  (let ((chat edn-bridge-add--composes)
        (text (buffer-substring-no-properties (point-min) (point-max)))
        (buffer (current-buffer)))
    (unless (edn-bridge-chat-buffer-p chat)
      (user-error "The chat is gone; the text stays here"))
    (quit-windows-on buffer)
    (pop-to-buffer chat)
    (edn-bridge-transcript-set-draft (string-trim-right text))
    (kill-buffer buffer)))

(defun edn-bridge-compose-send ()
  "Send the text of this buffer in its chat."
  (interactive)
  (edn-bridge-add--end-compose)
  (edn-bridge-input-send))

(defun edn-bridge-compose-leave ()
  "Go back to the chat, with the text of this buffer as its draft."
  (interactive)
  (edn-bridge-add--end-compose))

(define-key edn-bridge-chat-mode-map (kbd "C-c '") #'edn-bridge-compose)

(provide 'edn-bridge-add)

;;; edn-bridge-add.el ends here
