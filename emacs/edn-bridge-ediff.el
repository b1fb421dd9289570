;;; edn-bridge-ediff.el --- Look at a proposed change with Ediff  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Makes of a file and of the unified diff that the agent proposes for it
;; the text that the file would have, and shows both with Ediff.  Neither
;; can be changed there: what is allowed is what the question shows.

;;; Code:

(require 'cl-lib)
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
(declare-function ediff-buffers "ediff")

(defun edn-bridge-ediff (path diff)
  "Show the file PATH of this chat, and what DIFF makes of it, with Ediff."
  (let* ((file (edn-bridge-transcript-file path))
         (size (if (file-exists-p file)
                   (file-attribute-size (file-attributes file))
                 0)))
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
      (ediff-buffers (nth 0 buffers) (nth 1 buffers)
                     (list (lambda ()
                             (add-hook 'ediff-quit-hook
                                       (lambda ()
                                         (mapc #'kill-buffer buffers))
                                       t t)))))))

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
      (edn-bridge-visible-region (point-min) (point-max) 'strict)
      (set-buffer-modified-p nil)
      (setq buffer-read-only t))
    buffer))

(provide 'edn-bridge-ediff)

;;; edn-bridge-ediff.el ends here
