;;; edn-bridge-markdown-code.el --- Faces of code blocks in markdown  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Code blocks get the faces of their language's major mode, from an idle
;; timer, once they are closed: loading a mode may take a while.  A mode that
;; is slow over a block is not asked about the rest of it.
;;
;; Knows no markdown but the blocks that it is told of.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-faces)
(require 'edn-bridge-transcript)
(require 'edn-bridge-markdown-inline)

(defcustom edn-bridge-markdown-code-limit 10000
  "Longest code block, in characters, that gets its language's faces."
  :type 'natnum
  :group 'edn-bridge-markdown)

(defcustom edn-bridge-markdown-languages
  '(("bash" . sh-mode) ("c++" . c++-mode) ("clj" . clojure-mode)
    ("cpp" . c++-mode) ("diff" . diff-mode) ("el" . emacs-lisp-mode)
    ("elisp" . emacs-lisp-mode) ("js" . js-mode) ("javascript" . js-mode)
    ("json" . js-mode) ("patch" . diff-mode) ("py" . python-mode)
    ("rs" . rust-mode) ("sh" . sh-mode) ("shell" . sh-mode)
    ("ts" . typescript-mode) ("yml" . yaml-mode) ("zsh" . sh-mode))
  "Major modes for languages whose name is not that of their mode.
A language that is not listed has the mode that is called after it, if
that is a mode for code which Emacs visits some files in."
  :type '(alist :key-type string :value-type function)
  :group 'edn-bridge-markdown)

(defvar edn-bridge-markdown-fence-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'edn-bridge-markdown-copy-code)
    (define-key map [mouse-2] #'edn-bridge-markdown-copy-code)
    (define-key map [follow-link] 'mouse-face)
    map)
  "Keymap on the lines that begin code blocks.")

(defun edn-bridge-markdown-copy-code (&optional event)
  "Copy the code block at point, or where the mouse EVENT was.
The line above a block, with its language, belongs to it."
  (interactive (list last-nonmenu-event))
  (when (mouse-event-p event)
    (mouse-set-point event))
  (save-excursion
    (if (get-text-property (point) 'edn-bridge-markdown-code)
        (goto-char (previous-single-property-change
                    (1+ (point)) 'edn-bridge-markdown-code nil (point-min)))
      (forward-line))
    (let ((start (point))
          (end (next-single-property-change (point) 'edn-bridge-markdown-code
                                            nil (point-max))))
      (unless (get-text-property start 'edn-bridge-markdown-code)
        (user-error "There is no code here"))
      (kill-new (substring-no-properties
                 (edn-bridge-visible-unbroken start end)))
      (message "The code is on the kill ring"))))

(defvar-local edn-bridge-markdown--first-block nil
  "Marker at the first code block that waits for its faces, or nil.
The blocks themselves are marked by a text property: a marker for each
would make every insertion slower.")

(defvar edn-bridge-markdown--buffers nil
  "Buffers with code blocks that wait for their faces.")

(defvar edn-bridge-markdown--timer nil
  "Idle timer that sees to the waiting code blocks, or nil.")

(defun edn-bridge-markdown-code-add (start end language)
  "Have the code block between START and END get the faces of LANGUAGE soon."
  (when (and (not (member language '(nil "")))
             (< (- end start) edn-bridge-markdown-code-limit))
    (edn-bridge-markdown-code-queue start end language)))

(defun edn-bridge-markdown-code-queue (start end what)
  "Have the text between START and END get its faces soon.
WHAT is the language of a code block, or a list of a function and
arguments.  The function is called with START, END, the time at which it
has to stop and those arguments; it returns nil where it has to be called
again, a list to continue with, or t."
  (when (< start end)
    (put-text-property start end 'edn-bridge-markdown-language what)
    (if (and edn-bridge-markdown--first-block
             (marker-position edn-bridge-markdown--first-block))
        (when (< start edn-bridge-markdown--first-block)
          (set-marker edn-bridge-markdown--first-block start))
      (setq edn-bridge-markdown--first-block (copy-marker start)))
    (cl-pushnew (current-buffer) edn-bridge-markdown--buffers)
    (edn-bridge-markdown--schedule 0.2)))

(defun edn-bridge-markdown--schedule (seconds)
  "Have the waiting code blocks seen to when Emacs is idle for SECONDS."
  (unless edn-bridge-markdown--timer
    (setq edn-bridge-markdown--timer
          (run-with-idle-timer seconds nil
                               #'edn-bridge-markdown-fontify-blocks))))

(declare-function markdown-get-lang-mode "ext:markdown-mode")
(defvar org-src-fontify-natively)
(defvar markdown-fontify-code-blocks-natively)

(defconst edn-bridge-markdown--text-modes
  '(bibtex-mode gfm-mode html-mode latex-mode markdown-mode mhtml-mode
    nroff-mode nxml-mode plain-tex-mode rst-mode sgml-mode tex-mode
    texinfo-mode toml-ts-mode yaml-mode yaml-ts-mode)
  "Modes for text that blocks may have, in addition to those for code.
Others call modes that the text names, or read files of the user's.")

(defun edn-bridge-markdown--mode (language)
  "Return the major mode for LANGUAGE, or nil.
LANGUAGE is what an answer says."
  (let* ((language (downcase language))
         (listed (cdr (assoc language edn-bridge-markdown-languages)))
         (mode (or listed
                   (and (require 'markdown-mode nil t)
                        (markdown-get-lang-mode language))
                   (intern-soft (concat language "-mode")))))
    (if (and listed (fboundp listed))
        listed
      (edn-bridge-markdown-code-mode mode))))

(defun edn-bridge-markdown-code-mode (mode)
  "Return MODE if it may be called for a text of the agent, or nil.
It is a major mode for code that Emacs itself would visit a file in."
  (and mode
       (symbolp mode)
       (fboundp mode)
       (or (memq mode edn-bridge-markdown--text-modes)
           (and (edn-bridge-markdown--visiting-mode-p mode)
                (edn-bridge-markdown--code-mode-p mode)))
       mode))

(defun edn-bridge-markdown--visiting-mode-p (mode)
  "Return non-nil if Emacs visits some files in MODE."
  (cl-flet ((names (entry)
              (let ((value (cdr entry)))
                (or (eq value mode)
                    ;; (REGEXP FUNCTION NON-NIL)
                    (eq (car-safe value) mode)))))
    (or (cl-some #'names auto-mode-alist)
        (cl-some #'names interpreter-mode-alist)
        (cl-some #'names (bound-and-true-p major-mode-remap-alist))
        (cl-some #'names (bound-and-true-p major-mode-remap-defaults)))))

(defun edn-bridge-markdown--code-mode-p (mode)
  "Return non-nil if MODE is a major mode for code or configuration.
What it is derived from is known once its file is loaded."
  (when (autoloadp (symbol-function mode))
    (autoload-do-load (symbol-function mode) mode))
  (or (provided-mode-derived-p mode 'prog-mode)
      (provided-mode-derived-p mode 'conf-mode)))

(defconst edn-bridge-markdown--slice 0.05
  "How many seconds one look at the code blocks that wait may take.")

(defconst edn-bridge-markdown--slow 0.02
  "A part of a block that takes longer than this is the last of its block.
Modes are made for code that people write; some take minutes over text
that is made to be slow.")

(defconst edn-bridge-markdown--code-line-limit 1000
  "Longest line, in characters, of a code block that gets faces.")

(defun edn-bridge-markdown-fontify-blocks ()
  "Give the code blocks that wait for it the faces of their languages.
Stop after a moment or when a key is pressed, and go on later."
  (setq edn-bridge-markdown--timer nil)
  (let ((deadline (+ (float-time) edn-bridge-markdown--slice)))
    (while (and edn-bridge-markdown--buffers
                (not (input-pending-p))
                (< (float-time) deadline))
      (let ((buffer (car edn-bridge-markdown--buffers)))
        (unless (and (buffer-live-p buffer)
                     (with-current-buffer buffer
                       (edn-bridge-markdown--fontify-next deadline)))
          (pop edn-bridge-markdown--buffers)))))
  (when edn-bridge-markdown--buffers
    (edn-bridge-markdown--schedule 0.5)))

(defun edn-bridge-markdown--fontify-next (deadline)
  "See to the next waiting code block of this buffer; return nil if none.
Stop at DEADLINE."
  (let* ((from (or (and edn-bridge-markdown--first-block
                        (marker-position edn-bridge-markdown--first-block))
                   (point-max)))
         (start (text-property-not-all from (point-max)
                                       'edn-bridge-markdown-language nil)))
    (if (not start)
        (progn
          (when edn-bridge-markdown--first-block
            (set-marker edn-bridge-markdown--first-block nil))
          nil)
      (let* ((what (get-text-property start 'edn-bridge-markdown-language))
             (end (next-single-property-change
                   start 'edn-bridge-markdown-language nil (point-max)))
             (done t))
        (with-demoted-errors "edn-bridge: code block: %S"
          (if (consp what)
              (setq done (apply (car what) start end deadline (cdr what)))
            (when-let ((mode (edn-bridge-markdown--mode what)))
              (setq done (edn-bridge-markdown--fontify-block start end mode
                                                             deadline)))))
        (with-silent-modifications
          (cond
           ((consp done)
            (put-text-property start end 'edn-bridge-markdown-language done))
           (done
            (set-marker edn-bridge-markdown--first-block end)
            (remove-text-properties start end
                                    '(edn-bridge-markdown-language nil)))))
        t))))

(defvar-local edn-bridge-markdown--reached nil
  "In a buffer that finds out faces, how far it has got.")

(defun edn-bridge-markdown--fontify-block (start end mode deadline)
  "Copy the faces that MODE gives to the text between START and END.
Return nil where DEADLINE or a key came first: the rest is to be done
later."
  (edn-bridge-markdown-code-fontify
   (buffer-substring-no-properties start end) mode deadline
   (lambda (from to face)
     (when-let ((face (edn-bridge-faces-on face 'raised)))
       (add-face-text-property (+ start from) (+ start to) face)))))

(defun edn-bridge-markdown-code-fontify (text mode deadline function)
  "Call FUNCTION in this buffer with each face that MODE gives to TEXT.
It is called with where in TEXT the face begins and ends, and the face.
Return nil where DEADLINE or a key came first: call this again then."
  (let ((target (current-buffer)))
    (with-current-buffer
        (get-buffer-create (format " *edn-bridge-fontify:%s*" mode))
      (let ((inhibit-modification-hooks nil)
            (inhibit-message t)
            ;; The text must not set variables or have modes of its choice
            ;; called; and no hook of the user's expects a file here.
            (enable-local-variables nil)
            (enable-local-eval nil)
            (enable-dir-local-variables nil)
            (org-src-fontify-natively nil)
            (markdown-fontify-code-blocks-natively nil))
        (unless (eq major-mode mode)
          (delay-mode-hooks (funcall mode)))
        (unless (and edn-bridge-markdown--reached
                     (= (buffer-size) (1+ (length text)))
                     (equal text (buffer-substring-no-properties
                                  (point-min) (1- (point-max)))))
          (let ((inhibit-read-only t))
            (erase-buffer)
            (setq edn-bridge-markdown--reached
                  (and (edn-bridge-markdown--insert-parts (concat text " "))
                       (point-min)))))
        (let ((done (or (null edn-bridge-markdown--reached)
                        (edn-bridge-markdown--fontify-parts target function
                                                            deadline))))
          (when done
            (setq edn-bridge-markdown--reached nil))
          done)))))

(defun edn-bridge-markdown--insert-parts (text)
  "Insert TEXT part by part; return nil where a part is slow, and stop.
A mode may look at all that is inserted, whatever is asked of it later."
  (let ((gc-cons-threshold (max gc-cons-threshold 50000000))
        (from 0)
        (size 250)
        (slow nil))
    (while (and (not slow) (< from (length text)))
      (let ((begun (float-time))
            (to (min (length text) (+ from size))))
        (insert (substring text from to))
        (setq slow (> (- (float-time) begun) edn-bridge-markdown--slow)
              from to
              size (min 2000 (* 2 size)))))
    (not slow)))

(defun edn-bridge-markdown--fontify-parts (target function deadline)
  "Have this buffer find out faces part by part until DEADLINE.
FUNCTION is called with them in TARGET.  Return non-nil where nothing is
left to do."
  (let ((size 100)
        (slow (edn-bridge-markdown--long-line-p))
        (stopped nil))
    (while (and (not slow)
                (not stopped)
                (< edn-bridge-markdown--reached (1- (point-max))))
      (let* ((from edn-bridge-markdown--reached)
             (to (min (+ from size) (1- (point-max))))
             (begun (float-time)))
        (if (not (eq (while-no-input (font-lock-fontify-region from to) 'done)
                     'done))
            (setq stopped t)
          (edn-bridge-markdown--copy-faces from to target function)
          (setq edn-bridge-markdown--reached to)
          (let ((now (float-time)))
            (setq slow (> (- now begun) edn-bridge-markdown--slow)
                  stopped (> now deadline))
            (when (< (- now begun) 0.002)
              (setq size (min 2000 (* 2 size))))))))
    (or slow (>= edn-bridge-markdown--reached (1- (point-max))))))

(defun edn-bridge-markdown--long-line-p ()
  "Return non-nil if this buffer has a line that is too long for its mode."
  (save-excursion
    (goto-char (point-min))
    (let ((long nil))
      (while (not (or long (eobp)))
        (let ((from (point)))
          (forward-line)
          (setq long (> (- (point) from)
                        edn-bridge-markdown--code-line-limit))))
      long)))

(defun edn-bridge-markdown--copy-faces (from to target function)
  "Call FUNCTION in TARGET with the faces between FROM and TO."
  (let ((place from))
    (while (< place to)
      (let ((next (next-single-property-change place 'face nil to))
            (face (get-text-property place 'face)))
        (when face
          (with-current-buffer target
            (with-silent-modifications
              (funcall function (1- place) (1- next) face))))
        (setq place next)))))

(provide 'edn-bridge-markdown-code)

;;; edn-bridge-markdown-code.el ends here
