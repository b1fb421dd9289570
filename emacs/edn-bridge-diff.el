;;; edn-bridge-diff.el --- Diffs, with the colours of their files  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; A diff has the background of its lines at once.  From the idle timer of
;; code blocks, its text then gets the colours of the file's language, and
;; the words that differ between removed and added lines are marked.
;;
;; `diff-mode' would do both as well, but sets the file's mode with what the
;; text asks for, and takes colours that cannot be read in some themes.

;;; Code:

(require 'cl-lib)
(require 'diff-mode)
(require 'smerge-mode)
(require 'edn-bridge-faces)
(require 'edn-bridge-markdown-code)

(defun edn-bridge-diff-view-mode ()
  "Have the current buffer show a diff, read-only.
It has the keys of `diff-mode', and the colours of this package."
  (diff-mode)
  (font-lock-mode -1)
  (setq buffer-read-only t)
  (edn-bridge-faces-setup))

(defun edn-bridge-diff-add-faces (start end)
  "Give the diff between START and END its faces.
Those of its language and its words come when Emacs is idle."
  (save-excursion
    (goto-char start)
    (let ((from start)
          (path nil))
      (while (< (point) end)
        (let ((face (edn-bridge-diff--line-face)))
          (when (and (eq face 'edn-bridge-diff-header)
                     (looking-at "\\(?:---\\|\\+\\+\\+\\) \\([^\t\n]+\\)")
                     (not (equal (match-string 1) "/dev/null")))
            (unless (equal path (match-string-no-properties 1))
              (edn-bridge-diff--queue from (point) path)
              (setq from (point)))
            (setq path (match-string-no-properties 1)))
          (put-text-property (point) (min end (line-beginning-position 2))
                             'face face)
          (when-let ((sign (pcase face
                             ('edn-bridge-diff-added 'edn-bridge-diff-sign-added)
                             ('edn-bridge-diff-removed
                              'edn-bridge-diff-sign-removed))))
            (add-face-text-property (point) (1+ (point)) sign)))
        (forward-line))
      (edn-bridge-diff--queue from end path))))

(defun edn-bridge-diff--line-face ()
  "Return the face of the line of a diff that begins at point."
  (pcase (char-after)
    (?+ (if (looking-at-p "\\+\\+\\+ ")
            'edn-bridge-diff-header
          'edn-bridge-diff-added))
    (?- (if (looking-at-p "--- ")
            'edn-bridge-diff-header
          'edn-bridge-diff-removed))
    (?@ 'edn-bridge-diff-header)
    (_ 'edn-bridge-diff-context)))

(defun edn-bridge-diff--queue (start end path)
  "Have the diff of PATH between START and END get its other faces soon."
  (edn-bridge-markdown-code-queue
   start end
   (if (and path (edn-bridge-diff--mode path))
       (list #'edn-bridge-diff--fontify 'edn-bridge-diff-added path)
     (list #'edn-bridge-diff--refine))))

(defun edn-bridge-diff--mode (path)
  "Return the major mode for code of the file PATH, or nil.
It is chosen by the name alone, not by what is in the diff."
  (let ((mode (assoc-default (file-name-nondirectory path) auto-mode-alist
                             #'string-match-p)))
    (edn-bridge-markdown-code-mode (if (consp mode) (car mode) mode))))

;;;; The colours of the language

(defun edn-bridge-diff--fontify (start end deadline side path)
  "Give the lines on SIDE of the diff between START and END their colours.
SIDE is `edn-bridge-diff-added', with the lines that stay, or
`edn-bridge-diff-removed'.  PATH is the file.  Return nil where DEADLINE
came first, and what is to be done next where all is done."
  (when (edn-bridge-markdown-code-fontify
         (edn-bridge-diff--side start end side)
         (edn-bridge-diff--mode path)
         deadline
         (lambda (from to face)
           (edn-bridge-diff--copy-face (+ start 1 from) (+ start 1 to)
                                       face side)))
    (if (eq side 'edn-bridge-diff-added)
        (list #'edn-bridge-diff--fontify 'edn-bridge-diff-removed path)
      (list #'edn-bridge-diff--refine))))

(defun edn-bridge-diff--side (start end side)
  "Return the text that the diff between START and END has on SIDE.
Each character but the signs stands one place before its own in the diff,
and lines that are not on this side are blank."
  (let ((other (if (eq side 'edn-bridge-diff-added)
                   'edn-bridge-diff-removed
                 'edn-bridge-diff-added)))
    (save-excursion
      (goto-char start)
      (let ((lines nil))
        (while (< (point) end)
          (let ((line (buffer-substring-no-properties
                       (point) (min end (line-end-position)))))
            (push (cond ((equal line "") "\n")
                        ((memq (edn-bridge-diff--line-face)
                               (list other 'edn-bridge-diff-header))
                         (concat (make-string (1- (length line)) ?\s) " \n"))
                        (t (concat (substring line 1) " \n")))
                  lines))
          (forward-line))
        (apply #'concat (nreverse lines))))))

(defun edn-bridge-diff--copy-face (from to face side)
  "Give the text between FROM and TO the FACE, on the lines of SIDE alone.
The lines that stay belong to the side that is added."
  (save-excursion
    (goto-char from)
    (while (< (point) to)
      (let ((line (save-excursion (beginning-of-line)
                                  (edn-bridge-diff--line-face)))
            (end (min to (line-end-position))))
        (when-let ((ground (cond ((eq line side) side)
                                 ((and (eq side 'edn-bridge-diff-added)
                                       (eq line 'edn-bridge-diff-context))
                                  'raised)))
                   (face (edn-bridge-faces-on face ground)))
          (add-face-text-property (point) end face)))
      (forward-line))))

;;;; The words that differ

(defun edn-bridge-diff--refine (start end _deadline)
  "Mark the words that differ in the next change between START and END.
Return non-nil once there is no more."
  (save-excursion
    (goto-char start)
    (let ((removed nil) (added nil) (last nil))
      (while (and (< (point) end) (not last))
        (pcase (edn-bridge-diff--line-face)
          ('edn-bridge-diff-removed
           (if added
               (setq last (point))
             (unless removed (setq removed (point)))))
          ('edn-bridge-diff-added
           (when removed
             (unless added (setq added (point)))))
          (_ (if added
                 (setq last (point))
               (setq removed nil))))
        (unless last (forward-line)))
      (when added
        (edn-bridge-diff--refine-change removed added (or last end)))
      (or (not last)
          ;; The rest is next, unless something else is more urgent.
          (progn
            (with-silent-modifications
              (remove-text-properties
               start last '(edn-bridge-markdown-language nil)))
            nil)))))

(defconst edn-bridge-diff--change-limit 4000
  "Longest change, in characters, whose words are compared.")

(defun edn-bridge-diff--refine-change (removed added end)
  "Mark the words that differ between two parts of the buffer.
One is from REMOVED on, the other from ADDED to END."
  (when (< (- end removed) edn-bridge-diff--change-limit)
    (let ((text (buffer-substring-no-properties removed end))
          (middle (1+ (- added removed)))
          (marks nil))
      (with-temp-buffer
        (insert text)
        (let ((default-directory temporary-file-directory))
          ;; A system may have no program that compares files.
          (with-demoted-errors "edn-bridge: %S"
            (smerge-refine-regions
             (point-min) middle middle (point-max) nil
             #'edn-bridge-diff--blank-signs
             '((edn-bridge-diff edn-bridge-diff-refine-removed))
             '((edn-bridge-diff edn-bridge-diff-refine-added)))))
        (dolist (overlay (overlays-in (point-min) (point-max)))
          (when-let ((face (car-safe (overlay-get overlay 'edn-bridge-diff))))
            (push (list (overlay-start overlay) (overlay-end overlay) face)
                  marks))))
      (with-silent-modifications
        (pcase-dolist (`(,from ,to ,face) marks)
          (add-face-text-property (+ removed -1 from) (+ removed -1 to)
                                  face))))))

(defun edn-bridge-diff--blank-signs ()
  "Have a blank in the place of the sign of each line of the buffer."
  (goto-char (point-min))
  (while (re-search-forward "^[-+]" nil t)
    (replace-match " ")))

(provide 'edn-bridge-diff)

;;; edn-bridge-diff.el ends here
