;;; edn-bridge-ediff.el --- Look at a proposed change with Ediff  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; What the agent proposes for a file, beside what the file is, with Ediff.
;; Where the bridge sends the whole proposal, it can be edited there before it
;; is accepted, or merged hunk by hunk with `smerge-mode'; otherwise it is
;; made of the unified diff, and can only be looked at.

;;; Code:

(require 'cl-lib)
(require 'smerge-mode)
(require 'edn-bridge-transcript)
(require 'edn-bridge-visible)

(defconst edn-bridge-ediff--limit (* 2 1024 1024)
  "Largest file, in bytes, that is shown with Ediff.")

(defun edn-bridge-ediff-possible-p (diff paths)
  "Return non-nil if DIFF, a unified diff or nil, is of one file of PATHS."
  (and (stringp diff)
       (= (length paths) 1)
       (string-match-p "^@@ -[0-9]" diff)))

(defun edn-bridge-ediff-apply (text diff)
  "Return TEXT as DIFF, in unified form, changes it.
Signal an error where DIFF is not made for TEXT."
  (with-temp-buffer
    (insert text)
    (goto-char (point-min))
    (let ((lines (split-string diff "\n"))
          (shift 0))
      (while lines
        (let ((line (pop lines)))
          (when (string-match
                 "\\`@@ -\\([0-9]+\\)\\(?:,\\([0-9]+\\)\\)? \\+[0-9,]+ @@" line)
            (let ((first (string-to-number (match-string 1 line)))
                  (count (string-to-number (or (match-string 2 line) "1"))))
              (goto-char (point-min))
              ;; A hunk without old lines begins after the line it names.
              (forward-line (+ shift (if (zerop count) first (1- first))))
              (pcase-let ((`(,rest . ,added)
                           (edn-bridge-ediff--apply-hunk lines)))
                (setq lines rest
                      shift (+ shift added))))))))
    (buffer-string)))

(defun edn-bridge-ediff--apply-hunk (lines)
  "Apply the hunk that LINES begin with at point.
Return a cons of the lines after it and of how many lines it adds."
  (let ((added 0)
        (last nil))
    (while (and lines (string-match-p "\\`[-+ \\]" (car lines))
                (not (string-match-p "\\`--- " (car lines))))
      (let* ((line (pop lines))
             (text (concat (substring line 1) "\n")))
        (pcase (aref line 0)
          (?\s (edn-bridge-ediff--expect text)
               (forward-line))
          (?- (edn-bridge-ediff--expect text)
              (delete-region (point) (line-beginning-position 2))
              (cl-decf added))
          (?+ (unless (bolp) (insert "\n"))
              (insert text)
              (cl-incf added))
          ;; No newline at the end of the line before.
          (?\\ (when (eq last ?+)
                 (delete-char -1))))
        (setq last (aref line 0))))
    (cons lines added)))

(defun edn-bridge-ediff--expect (text)
  "Signal an error unless TEXT, a line, stands at point.
At the end of the buffer the newline may be missing."
  (unless (equal (buffer-substring (point) (line-end-position))
                 (string-remove-suffix "\n" text))
    (user-error "The file is not what this change was made for")))

(defvar ediff-quit-hook)
(defvar ediff-split-window-function)
(defvar ediff-number-of-differences)
(declare-function ediff-buffers "ediff")
(declare-function ediff-jump-to-difference "ediff-util")

(defcustom edn-bridge-edit-opens nil
  "What opens by itself when the agent asks whether it may change a file.
It opens where the chat is on the screen, once you do not type."
  :type '(choice (const :tag "Nothing" nil)
                 (const :tag "Ediff" ediff)
                 (const :tag "The hunks, with smerge-mode" smerge))
  :group 'edn-bridge)

(defconst edn-bridge-ediff--wide 160
  "From how many columns of a frame on two files stand side by side.")

(defun edn-bridge-ediff (path diff)
  "Show the file PATH of this chat, and what DIFF makes of it, with Ediff."
  (let* ((file (edn-bridge-transcript-file path))
         (size (if (file-exists-p file)
                   (file-attribute-size (file-attributes file))
                 0)))
    (when (and (file-exists-p file) (not (file-regular-p file)))
      (user-error "There is no file %s any more" path))
    (when (> size edn-bridge-ediff--limit)
      (user-error "The file %s is too large for Ediff" path))
    (let* ((before (with-temp-buffer
                     (when (file-exists-p file)
                       (insert-file-contents file))
                     (buffer-string)))
           (after (edn-bridge-ediff-apply before diff))
           (mode (edn-bridge-ediff--mode file))
           (buffers (list (edn-bridge-ediff--buffer "now" path before mode)
                          (edn-bridge-ediff--buffer "proposed" path after
                                                    mode))))
      (edn-bridge-ediff--start
       (nth 0 buffers) (nth 1 buffers)
       (lambda (back)
         (add-hook 'ediff-quit-hook
                   (lambda ()
                     (mapc #'kill-buffer buffers)
                     (funcall back))
                   t t))))))

(defun edn-bridge-ediff--start (now proposed function)
  "Compare the buffers NOW and PROPOSED with Ediff, for this chat.
FUNCTION is called in Ediff's control buffer, with a function that shows the
windows of now again.  Where Ediff cannot start, kill both buffers."
  (let ((back (edn-bridge-ediff--way-back))
        (others (buffer-list))
        (started nil))
    (unwind-protect
        (progn
          (edn-bridge-ediff--drop-side-windows)
          (edn-bridge-ediff--compare now proposed
                                     (lambda () (funcall function back)))
          (setq started t))
      (unless started
        (dolist (buffer (buffer-list))
          (when (or (memq buffer (list now proposed))
                    (and (not (memq buffer others))
                         (string-match-p "\\`\\*[Ee]diff" (buffer-name buffer))))
            (kill-buffer buffer)))
        (funcall back)))))

(defun edn-bridge-ediff--compare (now proposed function)
  "Start Ediff for the buffers NOW and PROPOSED, at the first difference.
FUNCTION is called in its control buffer."
  (let* ((control nil)
         (split (if (>= (frame-width) edn-bridge-ediff--wide)
                    #'split-window-horizontally
                  #'split-window-vertically))
         (ediff-split-window-function split))
    (ediff-buffers now proposed
                   (list (lambda ()
                           (setq control (current-buffer))
                           (setq-local ediff-split-window-function split)
                           (funcall function))))
    (when (buffer-live-p control)
      (with-current-buffer control
        (local-set-key [remap ediff-quit] #'edn-bridge-ediff-quit)
        (local-set-key "q" #'edn-bridge-ediff-quit)
        (when (> ediff-number-of-differences 0)
          (ediff-jump-to-difference 1))))))

(defun edn-bridge-ediff--drop-side-windows ()
  "Have no side windows in this frame, which Ediff cannot split.
Of the other windows, the one that was used last stays then."
  (let* ((windows (window-list nil 'nomini))
         (main (seq-remove (lambda (window)
                             (window-parameter window 'window-side))
                           windows)))
    (when (and main (< (length main) (length windows)))
      (select-window (car (seq-sort-by #'window-use-time #'> main)))
      (let ((ignore-window-parameters t))
        (delete-other-windows)))))

(defun edn-bridge-ediff--way-back ()
  "Return a function that shows the windows of now again.
The window of this chat is selected then, with point in the draft."
  (let ((chat (current-buffer))
        (frame (selected-frame))
        (windows (current-window-configuration)))
    (lambda ()
      (when (and windows (frame-live-p frame))
        (set-window-configuration windows))
      (setq windows nil)
      (when (buffer-live-p chat)
        (edn-bridge-ediff--select-draft chat)))))

(defun edn-bridge-ediff--select-draft (chat)
  "Select the window of CHAT, if there is one, with the draft at its bottom."
  (when-let ((window (get-buffer-window chat t)))
    (select-window window)
    (set-buffer chat)
    (goto-char (point-max))
    (recenter -1)))

(defun edn-bridge-ediff--mode (file)
  "Return the mode of the buffer that visits FILE, or `text-mode'.
No mode is chosen by what the agent proposes."
  (let ((buffer (get-file-buffer file)))
    (if buffer
        (buffer-local-value 'major-mode buffer)
      #'text-mode)))

(defun edn-bridge-ediff--buffer (what path text mode)
  "Return a new buffer with TEXT, which is WHAT the file PATH is, in MODE."
  (let ((buffer (generate-new-buffer
                 (format "*%s: %s*" (edn-bridge-visible-label path) what))))
    (with-current-buffer buffer
      (insert text)
      (let ((enable-local-variables nil)
            (enable-dir-local-variables nil))
        (delay-mode-hooks (funcall mode)))
      ;; The hooks that are held back would do this.
      (let ((font-lock-mode-hook nil))
        (font-lock-mode 1))
      (edn-bridge-visible-region (point-min) (point-max) 'strict)
      (set-buffer-modified-p nil)
      (setq buffer-read-only t))
    buffer))

;;;; A proposal that is edited

(defvar-local edn-bridge-ediff--accept nil
  "In a buffer with a proposal, the function that accepts a text.")

(defvar-local edn-bridge-ediff--proposal nil
  "In a buffer with a proposal, what was proposed.")

(defvar-local edn-bridge-ediff--base nil
  "In a buffer with a proposal, what the file is.")

(defvar-local edn-bridge-ediff--newline nil
  "Non-nil if the last newline of this buffer is not the proposal's.")

(defvar-local edn-bridge-ediff--control nil
  "The control buffer of Ediff for this buffer, or nil.")

(defvar-local edn-bridge-ediff--back nil
  "In a buffer with a proposal, the function that shows what was shown before.")

(defvar edn-bridge-ediff-edit-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "C-c C-c") #'edn-bridge-ediff-accept)
    (define-key map (kbd "C-c C-k") #'edn-bridge-ediff-leave)
    map)
  "Keymap of a proposal that can be edited.")

(define-minor-mode edn-bridge-ediff--edit-mode
  "Keys of a proposal that can be edited."
  :interactive nil
  :keymap edn-bridge-ediff-edit-map)

(defun edn-bridge-ediff--base (path digest)
  "Return the text of the file PATH, whose DIGEST is that of the proposal.
A DIGEST of nil means that there is no such file yet."
  (let ((file (edn-bridge-transcript-file path)))
    (cond
     ((and (null digest) (not (file-exists-p file))) "")
     ((null digest)
      (user-error "The file %s was made since; reject the change, and the agent tries again"
                  path))
     ((edn-bridge-ediff--base-of-buffer file digest))
     ((not (file-regular-p file))
      (user-error "There is no file %s any more" path))
     ((> (file-attribute-size (file-attributes file)) edn-bridge-ediff--limit)
      (user-error "The file %s is too large for this" path))
     (t
      (with-temp-buffer
        (set-buffer-multibyte nil)
        (insert-file-contents-literally file)
        (unless (equal digest (secure-hash 'sha256 (current-buffer)))
          (user-error "The file %s was changed since; reject the change, and the agent tries again"
                      path))
        (decode-coding-string (buffer-string) 'utf-8-unix))))))

(defun edn-bridge-ediff-check (path digest)
  "Signal an error unless the file PATH still has DIGEST, nil for no file."
  (edn-bridge-ediff--base path digest))

(defun edn-bridge-ediff--base-of-buffer (file digest)
  "Return the text of the buffer that visits FILE if it has DIGEST, or nil."
  (when-let ((buffer (get-file-buffer file)))
    (let ((text (with-current-buffer buffer
                  (save-restriction
                    (widen)
                    (buffer-substring-no-properties (point-min)
                                                    (point-max))))))
      (and (equal digest (secure-hash 'sha256 (encode-coding-string
                                               text 'utf-8-unix)))
           text))))

(defun edn-bridge-ediff--proposed (path base content accept)
  "Return a new buffer with CONTENT for the file PATH, which can be edited.
BASE is what the file is; ACCEPT is called with the text that is accepted."
  (let ((buffer (edn-bridge-ediff--buffer
                 "proposed" path content
                 (edn-bridge-ediff--mode (edn-bridge-transcript-file path)))))
    (with-current-buffer buffer
      (setq buffer-read-only nil
            edn-bridge-ediff--accept accept
            edn-bridge-ediff--proposal content
            edn-bridge-ediff--base base
            header-line-format
            (substitute-command-keys
             "\\<edn-bridge-ediff-edit-map>\\[edn-bridge-ediff-accept] accepts the file as it is here, \\[edn-bridge-ediff-leave] leaves the question open"))
      (buffer-enable-undo)
      (edn-bridge-ediff--edit-mode))
    buffer))

(defun edn-bridge-ediff-edit (path digest content accept)
  "Have CONTENT for the file PATH edited with Ediff.
DIGEST is that of the file which it was made for, nil for a new one.
ACCEPT is called with the text that is accepted.  Return the buffer."
  (let* ((base (edn-bridge-ediff--base path digest))
         (now (edn-bridge-ediff--buffer
               "now" path base
               (edn-bridge-ediff--mode (edn-bridge-transcript-file path))))
         (proposed (edn-bridge-ediff--proposed path base content accept)))
    (edn-bridge-ediff--start
     now proposed
     (lambda (back)
       (let ((control (current-buffer)))
         (with-current-buffer proposed
           (setq edn-bridge-ediff--control control
                 edn-bridge-ediff--back back)))
       (add-hook 'ediff-quit-hook
                 (lambda ()
                   (edn-bridge-ediff--on-quit now proposed))
                 t t)))
    proposed))

(defvar ediff-buffer-B)
(declare-function ediff-really-quit "ediff-util")

(defun edn-bridge-ediff-quit ()
  "End this Ediff: accept what is proposed, leave the question, or edit on."
  (interactive)
  (let ((proposed ediff-buffer-B)
        (control (current-buffer)))
    (if (not (and (buffer-live-p proposed)
                  (buffer-local-value 'edn-bridge-ediff--accept proposed)))
        (ediff-really-quit nil)
      (pcase (car (read-multiple-choice
                   "The file as it is proposed now:"
                   '((?a "accept" "Accept it: the agent writes it")
                     (?l "leave" "Leave the question open, and drop what was edited")
                     (?e "edit on" "Continue in Ediff"))))
        (?a (condition-case err
                (with-current-buffer proposed
                  (edn-bridge-ediff-accept))
              ;; What was edited is not lost: it may be accepted later.
              (user-error
               (message "%s" (error-message-string err)))))
        (?l (with-current-buffer proposed
              (edn-bridge-ediff-leave)))
        (_ (set-buffer control))))))

(defun edn-bridge-ediff--on-quit (now proposed)
  "Ask whether PROPOSED is accepted as it is; kill it and NOW."
  (when (buffer-live-p now)
    (kill-buffer now))
  (when (buffer-live-p proposed)
    (with-current-buffer proposed
      (setq edn-bridge-ediff--control nil)
      (if (and edn-bridge-ediff--accept
               (y-or-n-p "Accept the file as it is proposed now? "))
          (condition-case err
              (edn-bridge-ediff-accept)
            ;; What was edited is not lost: it may be accepted later.
            (user-error
             (pop-to-buffer proposed)
             (message "%s" (error-message-string err))))
        (edn-bridge-ediff-leave)))))

(defun edn-bridge-ediff-merge (path digest content accept)
  "Have CONTENT for the file PATH merged hunk by hunk, with `smerge-mode'.
DIGEST, ACCEPT and what is returned are as in `edn-bridge-ediff-edit'."
  (let* ((base (edn-bridge-ediff--base path digest))
         (ended (or (equal content "") (string-suffix-p "\n" content)))
         (merged (edn-bridge-ediff--conflicts
                  (edn-bridge-ediff--ended base)
                  (edn-bridge-ediff--ended content)))
         (back (edn-bridge-ediff--way-back))
         (buffer (edn-bridge-ediff--proposed path base content accept)))
    (with-current-buffer buffer
      (let ((inhibit-read-only t))
        (erase-buffer)
        (insert merged))
      (setq edn-bridge-ediff--newline (not ended)
            edn-bridge-ediff--back back
            header-line-format
            (concat (substitute-command-keys
                     "\\<smerge-mode-map>\\[smerge-keep-upper] keeps what is there, \\[smerge-keep-lower] takes what is proposed, \\[smerge-next] goes on; ")
                    (substitute-command-keys
                     "\\<edn-bridge-ediff-edit-map>\\[edn-bridge-ediff-accept] accepts, \\[edn-bridge-ediff-leave] leaves")))
      (goto-char (point-min))
      (smerge-mode 1)
      ;; It would go past a conflict that begins at point.
      (unless (looking-at-p smerge-begin-re)
        (ignore-errors (smerge-next)))
      (edn-bridge-visible-region (point-min) (point-max) 'strict)
      (set-buffer-modified-p nil))
    (pop-to-buffer buffer)
    ;; Else Emacs puts the first hunk in the middle of the window, with its
    ;; end below, or shows the buffer from where it left a window.
    (recenter (min 2 (/ (window-body-height) 3)))
    buffer))

(defun edn-bridge-ediff--ended (text)
  "Return TEXT with a newline at its end."
  (if (or (equal text "") (string-suffix-p "\n" text))
      text
    (concat text "\n")))

(defun edn-bridge-ediff--conflicts (old new)
  "Return OLD with conflict markers where NEW differs from it."
  (let ((files (list (make-temp-file "edn-bridge") (make-temp-file "edn-bridge")))
        (coding-system-for-write 'utf-8-unix)
        (coding-system-for-read 'utf-8-unix))
    (unwind-protect
        (with-temp-buffer
          (write-region old nil (nth 0 files) nil 'quiet)
          (write-region new nil (nth 1 files) nil 'quiet)
          (let ((default-directory temporary-file-directory))
            (unless (memq (call-process
                           "diff" nil t nil
                           "--changed-group-format=<<<<<<< now\n%<=======\n%>>>>>>>> proposed\n"
                           "--unchanged-group-format=%="
                           (nth 0 files) (nth 1 files))
                          '(0 1))
              (user-error "The program diff of this system cannot show hunks; use Ediff")))
          (buffer-string))
      (mapc #'delete-file files))))

(defun edn-bridge-ediff-accept ()
  "Accept the file as it is in this buffer."
  (interactive)
  (let ((accept (or edn-bridge-ediff--accept
                    (user-error "Nothing is proposed here")))
        (text (buffer-substring-no-properties (point-min) (point-max))))
    (when (and (bound-and-true-p smerge-mode)
               (save-excursion
                 (goto-char (point-min))
                 (re-search-forward smerge-begin-re nil t)))
      (user-error "There are hunks left to decide about"))
    (when edn-bridge-ediff--newline
      (setq text (string-remove-suffix "\n" text)))
    (when (equal text edn-bridge-ediff--base)
      (user-error "Nothing is left of the change; reject it instead"))
    ;; It fails where the question was answered; the text stays then.
    (funcall accept (if (equal text edn-bridge-ediff--proposal) nil text))
    (setq edn-bridge-ediff--accept nil)
    (edn-bridge-ediff--put-away)))

(defun edn-bridge-ediff-leave ()
  "Leave the question open, and drop what was edited here."
  (interactive)
  (setq edn-bridge-ediff--accept nil)
  (edn-bridge-ediff--put-away)
  (kill-buffer))

(defun edn-bridge-ediff--put-away ()
  "Show this buffer no more, and end Ediff for it.
What was shown before is shown again."
  (let ((buffer (current-buffer))
        (control edn-bridge-ediff--control)
        (back edn-bridge-ediff--back))
    (setq edn-bridge-ediff--control nil
          edn-bridge-ediff--back nil)
    (set-buffer-modified-p nil)
    (when (buffer-live-p control)
      (with-current-buffer control
        (setq-local ediff-quit-hook
                    (list #'edn-bridge-ediff--kill-now #'ediff-cleanup-mess))
        (ediff-really-quit nil)))
    (dolist (window (get-buffer-window-list buffer nil t))
      (quit-restore-window window))
    (when back
      (funcall back))
    (set-buffer buffer)))

(declare-function ediff-cleanup-mess "ediff-util")
(defvar ediff-buffer-A)

(defun edn-bridge-ediff--kill-now ()
  "Kill the buffer that shows what the file is."
  (when (buffer-live-p ediff-buffer-A)
    (kill-buffer ediff-buffer-A)))

(provide 'edn-bridge-ediff)

;;; edn-bridge-ediff.el ends here
