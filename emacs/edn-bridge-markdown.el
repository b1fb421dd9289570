;;; edn-bridge-markdown.el --- Faces for markdown as it streams in  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Puts faces on markdown that is inserted bit by bit.  Each line is looked
;; at once when it is complete; the last, unfinished line is looked at again
;; only while it is short and only when something that could matter came.
;; So the cost of a bit is that of the bit, whatever stands before it.
;;
;; Code blocks get the faces of their language's major mode, from an idle
;; timer, once they are closed: loading a mode may take a while.
;;
;; The text is left as it is, markup included; links can be followed.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-transcript)

(defgroup edn-bridge-markdown nil
  "Faces of the markdown in a transcript."
  :group 'edn-bridge)

(defcustom edn-bridge-markdown-code-limit 100000
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

(defface edn-bridge-markdown-heading
  '((t :inherit font-lock-function-name-face :weight bold))
  "Face of headings."
  :group 'edn-bridge-markdown)

(defface edn-bridge-markdown-bold '((t :inherit bold))
  "Face of strong emphasis."
  :group 'edn-bridge-markdown)

(defface edn-bridge-markdown-italic '((t :inherit italic))
  "Face of emphasis."
  :group 'edn-bridge-markdown)

(defface edn-bridge-markdown-code
  '((t :inherit (fixed-pitch font-lock-constant-face)))
  "Face of code within a line."
  :group 'edn-bridge-markdown)

(defface edn-bridge-markdown-block '((t :inherit fixed-pitch :extend t))
  "Face of code blocks."
  :group 'edn-bridge-markdown)

(defface edn-bridge-markdown-table '((t :inherit fixed-pitch))
  "Face of tables, whose columns stand one below another."
  :group 'edn-bridge-markdown)

(defface edn-bridge-markdown-markup '((t :inherit shadow))
  "Face of the markup itself: fences, bullets, quote marks."
  :group 'edn-bridge-markdown)

(defface edn-bridge-markdown-quote '((t :inherit font-lock-doc-face))
  "Face of quoted paragraphs."
  :group 'edn-bridge-markdown)

(defface edn-bridge-markdown-link '((t :inherit link))
  "Face of links."
  :group 'edn-bridge-markdown)

;;;; Public API

(cl-defstruct (edn-bridge-markdown (:constructor edn-bridge-markdown--make)
                                   (:copier nil))
  "A piece of markdown that is being inserted."
  (line nil :documentation "Marker at the start of the unfinished line.")
  (fence nil :documentation "Fence of the open code block, a string, or nil.")
  (language nil :documentation "Language of the open code block, or nil.")
  (block nil :documentation "Marker at the first line of the open code block."))

(defun edn-bridge-markdown-begin (position)
  "Return the state of a piece of markdown that begins at POSITION."
  (edn-bridge-markdown--make :line (copy-marker position)))

(defun edn-bridge-markdown-feed (state start end)
  "Put faces on the text between START and END, just added to STATE's piece."
  (goto-char start)
  (let ((fresh start))
    (while (search-forward "\n" end t)
      (let ((next (point)))
        (edn-bridge-markdown--line state
                                   (edn-bridge-markdown-line state) (1- next))
        (set-marker (edn-bridge-markdown-line state) next)
        (setq fresh next)
        (goto-char next)))
    (when (< fresh end)
      (edn-bridge-markdown--unfinished state fresh end))))

(defun edn-bridge-markdown-finish (state end)
  "Put faces on what is left of STATE's piece, which ends at END."
  (when (< (edn-bridge-markdown-line state) end)
    (edn-bridge-markdown--line state (edn-bridge-markdown-line state) end))
  (when (and (edn-bridge-markdown-block state)
             (< (edn-bridge-markdown-block state) end))
    (edn-bridge-markdown--close-block state end))
  (set-marker (edn-bridge-markdown-line state) nil))

(defun edn-bridge-markdown-region (start end)
  "Put faces on the complete piece of markdown between START and END."
  (save-excursion
    (let ((state (edn-bridge-markdown-begin start)))
      (edn-bridge-markdown-feed state start end)
      (edn-bridge-markdown-finish state end))))

;;;; Links

(defvar edn-bridge-markdown-link-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'edn-bridge-markdown-follow)
    (define-key map [mouse-2] #'edn-bridge-markdown-follow)
    (define-key map [follow-link] 'mouse-face)
    map)
  "Keymap on links.")

(defun edn-bridge-markdown-follow (&optional event)
  "Go where the link at point leads, or the one where the mouse EVENT was.
That is a page, for the browser, or a file, perhaps with a line."
  (interactive (list last-nonmenu-event))
  (when (mouse-event-p event)
    (mouse-set-point event))
  (let ((target (get-text-property (point) 'edn-bridge-markdown-target)))
    (cond
     ((null target)
      (user-error "There is no link here"))
     ((string-match-p "\\`\\(?:https?\\|mailto\\):" target)
      (browse-url target))
     ((and (string-match-p "\\`[[:alpha:]][[:alnum:]+.-]+:" target)
           (not (string-prefix-p "file:///" target))
           (not (string-match-p "\\`[^/:]+\\.[[:alnum:]]+:[0-9]" target)))
      (user-error "Links like %s are not followed" target))
     ((string-match "\\`\\(?:file://\\)?\\(.+?\\)\\(?:\\(?::\\|#L\\)\\([0-9]+\\).*\\)?\\'"
                    target)
      (edn-bridge-transcript-visit
       (match-string 1 target)
       (and (match-string 2 target)
            (string-to-number (match-string 2 target))))))))

;;;; Lines

(defconst edn-bridge-markdown--properties
  '(face edn-bridge-markdown-target help-echo mouse-face keymap)
  "Properties that the text of a line may get.")

(defconst edn-bridge-markdown--line-limit 2000
  "Longest line, in characters, that is searched for markup within it.")

(defconst edn-bridge-markdown--fence "[ \t]*\\(```+\\|~~~+\\)[ \t]*\\([^ \t\n`]*\\)"
  "Matches the line that opens or closes a code block.")

(defconst edn-bridge-markdown--inline
  (concat "\\(?1:`[^`\n]+`\\)"
          "\\|\\(?2:\\*\\*[^* \n][^*\n]*\\*\\*\\)"
          "\\|\\(?3:\\_<_[^_ \n][^_\n]*_\\_>\\|\\*[^* \n][^*\n]*\\*\\)"
          "\\|\\(?4:\\[[^]\n]+\\](\\(?5:[^) \n]+\\))\\|"
          "\\(?5:https?://[^] \t\n)>\"`]*[^] \t\n)>\"`.,;:!?']\\)\\)")
  "Matches code, strong emphasis, emphasis and links within a line.")

(defun edn-bridge-markdown--line (state start end)
  "Put faces on the complete line between START and END of STATE's piece."
  (goto-char start)
  (cond
   ((edn-bridge-markdown-fence state)
    (if (and (looking-at edn-bridge-markdown--fence)
             (string-prefix-p (edn-bridge-markdown-fence state)
                              (match-string-no-properties 1))
             (= (match-beginning 2) (match-end 2)))
        (progn
          (edn-bridge-markdown--close-block state start)
          (edn-bridge-markdown--face start end 'edn-bridge-markdown-markup))
      (edn-bridge-markdown--face start (min (1+ end) (point-max))
                                 'edn-bridge-markdown-block)))
   ((looking-at edn-bridge-markdown--fence)
    (setf (edn-bridge-markdown-fence state) (match-string-no-properties 1)
          (edn-bridge-markdown-language state) (match-string-no-properties 2)
          (edn-bridge-markdown-block state)
          (copy-marker (min (1+ end) (point-max))))
    (edn-bridge-markdown--face start end 'edn-bridge-markdown-markup))
   (t
    (edn-bridge-markdown--prose start end))))

(defun edn-bridge-markdown--prose (start end)
  "Put faces on the line of prose between START and END."
  (goto-char start)
  (remove-list-of-text-properties start end edn-bridge-markdown--properties)
  (cond
   ((looking-at "#\\{1,6\\}[ \t]")
    (edn-bridge-markdown--face start end 'edn-bridge-markdown-heading))
   ((looking-at "[ \t]*>")
    (edn-bridge-markdown--face start end 'edn-bridge-markdown-quote))
   ((looking-at "[ \t]*|")
    (edn-bridge-markdown--face start end 'edn-bridge-markdown-table))
   ((looking-at "[ \t]*\\(?:[-*+]\\|[0-9]+[.)]\\)[ \t]")
    (edn-bridge-markdown--face start (match-end 0)
                               'edn-bridge-markdown-markup)
    (goto-char (match-end 0))))
  (when (< (- end start) edn-bridge-markdown--line-limit)
    (while (re-search-forward edn-bridge-markdown--inline end t)
      (add-face-text-property
       (match-beginning 0) (match-end 0)
       (cond ((match-beginning 1) 'edn-bridge-markdown-code)
             ((match-beginning 2) 'edn-bridge-markdown-bold)
             ((match-beginning 3) 'edn-bridge-markdown-italic)
             (t 'edn-bridge-markdown-link)))
      (when (match-beginning 4)
        (add-text-properties
         (match-beginning 0) (match-end 0)
         (let ((target (match-string-no-properties 5)))
           (list 'edn-bridge-markdown-target target
                 'help-echo target
                 'mouse-face 'highlight
                 'keymap edn-bridge-markdown-link-map)))))))

(defun edn-bridge-markdown--unfinished (state fresh end)
  "Put faces on STATE's unfinished line, whose text from FRESH to END is new."
  (let ((start (edn-bridge-markdown-line state)))
    (cond
     ((edn-bridge-markdown-fence state)
      (edn-bridge-markdown--face fresh end 'edn-bridge-markdown-block))
     ((and (< (- end start) edn-bridge-markdown--line-limit)
           (progn (goto-char fresh)
                  (skip-chars-forward "^*_`)#>~|" end)
                  (< (point) end))
           (progn (goto-char start)
                  (not (looking-at-p edn-bridge-markdown--fence))))
      (edn-bridge-markdown--prose (marker-position start) end)))))

(defsubst edn-bridge-markdown--face (start end face)
  "Give the text between START and END the FACE."
  (put-text-property start end 'face face))

;;;; Code blocks

(defvar-local edn-bridge-markdown--first-block nil
  "Marker at the first code block that waits for its faces, or nil.
The blocks themselves are marked by a text property: a marker for each
would make every insertion slower.")

(defvar edn-bridge-markdown--buffers nil
  "Buffers with code blocks that wait for their faces.")

(defvar edn-bridge-markdown--timer nil
  "Idle timer that sees to the waiting code blocks, or nil.")

(defun edn-bridge-markdown--close-block (state end)
  "Close the code block of STATE before END."
  (let ((start (marker-position (edn-bridge-markdown-block state)))
        (language (edn-bridge-markdown-language state)))
    (set-marker (edn-bridge-markdown-block state) nil)
    (setf (edn-bridge-markdown-fence state) nil
          (edn-bridge-markdown-language state) nil
          (edn-bridge-markdown-block state) nil)
    (when (and (not (member language '(nil "")))
               (< 0 (- end start) edn-bridge-markdown-code-limit))
      (put-text-property start end 'edn-bridge-markdown-language language)
      (if (and edn-bridge-markdown--first-block
               (marker-position edn-bridge-markdown--first-block))
          (when (< start edn-bridge-markdown--first-block)
            (set-marker edn-bridge-markdown--first-block start))
        (setq edn-bridge-markdown--first-block (copy-marker start)))
      (cl-pushnew (current-buffer) edn-bridge-markdown--buffers)
      (edn-bridge-markdown--schedule 0.2))))

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
  "Modes for text, beside those for code, that blocks may have.
Others call modes that the text names, or read files of the user's.")

(defun edn-bridge-markdown--mode (language)
  "Return the major mode for LANGUAGE, or nil.
LANGUAGE is what an answer says.  Only a mode that the user has listed, or
a major mode for code that Emacs itself would visit a file in, is called."
  (let* ((language (downcase language))
         (listed (cdr (assoc language edn-bridge-markdown-languages)))
         (mode (or listed
                   (and (require 'markdown-mode nil t)
                        (markdown-get-lang-mode language))
                   (intern-soft (concat language "-mode")))))
    (and mode
         (symbolp mode)
         (fboundp mode)
         (or (eq mode listed)
             (memq mode edn-bridge-markdown--text-modes)
             (and (edn-bridge-markdown--visiting-mode-p mode)
                  (edn-bridge-markdown--code-mode-p mode)))
         mode)))

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

(defun edn-bridge-markdown-fontify-blocks ()
  "Give the code blocks that wait for it the faces of their languages.
Stop when a key is pressed, and go on later."
  (setq edn-bridge-markdown--timer nil)
  (while (and edn-bridge-markdown--buffers (not (input-pending-p)))
    (let ((buffer (car edn-bridge-markdown--buffers)))
      (unless (and (buffer-live-p buffer)
                   (with-current-buffer buffer
                     (edn-bridge-markdown--fontify-next)))
        (pop edn-bridge-markdown--buffers))))
  (when edn-bridge-markdown--buffers
    (edn-bridge-markdown--schedule 0.5)))

(defun edn-bridge-markdown--fontify-next ()
  "See to the next waiting code block of this buffer; return nil if none."
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
      (let ((language (get-text-property start 'edn-bridge-markdown-language))
            (end (next-single-property-change
                  start 'edn-bridge-markdown-language nil (point-max))))
        (set-marker edn-bridge-markdown--first-block end)
        (with-silent-modifications
          (remove-text-properties start end
                                  '(edn-bridge-markdown-language nil)))
        (with-demoted-errors "edn-bridge: code block: %S"
          (when-let ((mode (edn-bridge-markdown--mode language)))
            (edn-bridge-markdown--fontify-block start end mode)))
        t))))

(defun edn-bridge-markdown--fontify-block (start end mode)
  "Copy the faces that MODE gives to the text between START and END."
  (let ((text (buffer-substring-no-properties start end))
        (target (current-buffer)))
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
        (let ((inhibit-read-only t))
          (erase-buffer)
          (insert text " "))
        (font-lock-ensure)
        (let ((place (point-min)))
          (while (< place (1- (point-max)))
            (let ((next (min (next-single-property-change
                              place 'face nil (point-max))
                             (1- (point-max))))
                  (face (get-text-property place 'face)))
              (when face
                (let ((from (+ start (1- place)))
                      (to (+ start (1- next))))
                  (with-current-buffer target
                    (with-silent-modifications
                      (add-face-text-property from to face)))))
              (setq place next))))))))

(provide 'edn-bridge-markdown)

;;; edn-bridge-markdown.el ends here
