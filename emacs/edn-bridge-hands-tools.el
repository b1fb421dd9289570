;;; edn-bridge-hands-tools.el --- What Emacs knows, as tools  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; What Emacs knows of a project, as tools of the agent: what checkers and
;; language servers report, where something is defined and used, what a file
;; consists of, which files the project has, what is open and selected.  None
;; of these changes anything or opens a file.  Two more are off by default:
;; the documentation of Emacs Lisp, and its evaluation.
;;
;; The bridge alone looks into files for the agent: it knows which of them a
;; rule denies and what is outside the folder.  So nothing here searches
;; files, as the functions of Xref do where they know no better, or reads
;; one for the text of a line.  A language server is asked for places alone.

;;; Code:

(require 'cl-lib)
(require 'help)
(require 'imenu)
(require 'url-util)
(require 'edn-bridge-chat)
(require 'edn-bridge-buffers)
(require 'edn-bridge-context)
(require 'edn-bridge-hands)

(defcustom edn-bridge-hands-tools
  '(diagnostics definitions references outline files buffers selection)
  "What Emacs offers to the agent as tools.
The selection is offered only where `edn-bridge-context-share' is non-nil."
  :type '(set (const :tag "What checkers and language servers report"
                     diagnostics)
              (const :tag "Where a symbol is defined" definitions)
              (const :tag "Where a symbol is used" references)
              (const :tag "What an open file consists of" outline)
              (const :tag "Which files the project has" files)
              (const :tag "Which files are open" buffers)
              (const :tag "Where point is and what is selected" selection)
              (const :tag "Documentation of Emacs Lisp" elisp-docs)
              (const :tag "Evaluation of Emacs Lisp, which asks each time"
                     elisp-eval))
  :group 'edn-bridge)

(defconst edn-bridge-hands--rows 200
  "How many lines a tool returns at most.")

;;;; The tools

(defun edn-bridge-hands--chosen-p (tool)
  "Return non-nil if TOOL, a symbol, is to be offered."
  (memq tool edn-bridge-hands-tools))

(edn-bridge-define-tool editor-diagnostics (&optional path)
  "What the editor's checkers and language servers report about files that are open in the editor.  Without a path, about all open files of the project."
  :args ((path string "A file that is open in the editor."))
  :changes nil
  :path path
  :if (edn-bridge-hands--chosen-p 'diagnostics)
  (edn-bridge-hands--diagnostics (list :path path)))

(edn-bridge-define-tool editor-definitions (path symbol &optional line)
  "Where a symbol is defined, as file:line:column, by the editor's language server; in Emacs Lisp, by what is loaded or open.  The path is a file that is open in the editor and uses the symbol."
  :args ((path string "A file that is open in the editor.")
         (symbol string "The symbol.")
         (line integer "A line of the file that has the symbol."))
  :changes nil
  :path path
  :if (edn-bridge-hands--chosen-p 'definitions)
  (edn-bridge-hands--definitions-of (list :path path :symbol symbol :line line)))

(edn-bridge-define-tool editor-references (path symbol &optional line)
  "Where a symbol is used in the project, as file:line:column, by the editor's language server.  Without one, use search.  The path is a file that is open in the editor and uses the symbol."
  :args ((path string "A file that is open in the editor.")
         (symbol string "The symbol.")
         (line integer "A line of the file that has the symbol."))
  :changes nil
  :path path
  :if (edn-bridge-hands--chosen-p 'references)
  (edn-bridge-hands--references-of (list :path path :symbol symbol :line line)))

(edn-bridge-define-tool editor-outline (path)
  "What a file that is open in the editor consists of: its functions, types, headings, with their lines."
  :args ((path string "A file that is open in the editor."))
  :changes nil
  :path path
  :if (edn-bridge-hands--chosen-p 'outline)
  (edn-bridge-hands--outline (list :path path)))

(edn-bridge-define-tool editor-project-files (&optional containing)
  "The files of the folder, a Git repository or a part of one, without those that are ignored."
  :args ((containing string "Only those whose path contains this text."))
  :changes nil
  :if (edn-bridge-hands--chosen-p 'files)
  (edn-bridge-hands--files (list :containing containing)))

(edn-bridge-define-tool editor-buffers ()
  "The files of the project that are open in the editor, the one that was used last first, and whether they have unsaved changes."
  :changes nil
  :if (edn-bridge-hands--chosen-p 'buffers)
  (edn-bridge-hands--buffers nil))

(edn-bridge-define-tool editor-selection ()
  "The file that the user was in last, where in it they are, and what is selected there."
  :changes nil
  :if (and (edn-bridge-hands--chosen-p 'selection)
           edn-bridge-context-share)
  (edn-bridge-hands--selection nil))

(edn-bridge-define-tool editor-elisp-docs (symbol)
  "The documentation of a symbol of Emacs Lisp in the running Emacs: as a function, with its arguments, as a variable and as a face, and the file that defines it."
  :args ((symbol string "The symbol."))
  :changes nil
  :if (edn-bridge-hands--chosen-p 'elisp-docs)
  (edn-bridge-hands--docs symbol))

(edn-bridge-define-tool editor-elisp-eval (code)
  "Evaluates Emacs Lisp in the running Emacs and returns the printed value of the last form.  The user is asked each time."
  :args ((code string "The forms."))
  :changes t
  :asks t
  :seconds 600
  :if (edn-bridge-hands--chosen-p 'elisp-eval)
  (edn-bridge-hands--eval code))

;;;; Parts of answers

(defun edn-bridge-hands--argument (arguments key)
  "Return the string KEY of ARGUMENTS, which must have it."
  (let ((value (plist-get arguments key)))
    (if (and (stringp value) (not (string-blank-p value)))
        value
      (error "The argument %s is missing" (edn-bridge-chat-word key)))))

(defun edn-bridge-hands--buffer (path)
  "Return the buffer that visits PATH, a file of this chat's folder."
  (let ((buffer (edn-bridge-buffers-visiting path)))
    (if (and buffer
             (edn-bridge-buffers-below-p
              buffer (expand-file-name default-directory)))
        buffer
      (error "%s is not open in the editor; editor-buffers tells what is"
             path))))

(defun edn-bridge-hands--open ()
  "Return the buffers of files of this folder, the last used first."
  (let ((folder (expand-file-name default-directory)))
    (seq-filter (lambda (buffer)
                  (let ((file (buffer-file-name buffer)))
                    (and file (string-prefix-p folder file))))
                (buffer-list))))

(defun edn-bridge-hands--name (file)
  "Return what FILE is called: from this chat's folder on, if it is in it."
  (let ((folder (expand-file-name default-directory)))
    (if (string-prefix-p folder file)
        (substring file (length folder))
      (file-local-name file))))

(defun edn-bridge-hands--lines (lines none)
  "Return LINES, a list of strings, as a text, or NONE where there are none.
Of many the first ones, and how many there are."
  (let ((count (length lines)))
    (cond
     ((zerop count) none)
     ((<= count edn-bridge-hands--rows) (string-join lines "\n"))
     (t (format "%s\n(%d more)"
                (string-join (seq-take lines edn-bridge-hands--rows) "\n")
                (- count edn-bridge-hands--rows))))))

(defun edn-bridge-hands--one-line (text)
  "Return TEXT in one line that is not too long."
  (truncate-string-to-width
   (replace-regexp-in-string "[ \t\n]+" " " (string-trim text))
   500 nil nil "…"))

;;;; Diagnostics

(declare-function flymake-diagnostics "flymake")
(declare-function flymake-diagnostic-beg "flymake")
(declare-function flymake-diagnostic-text "flymake")
(declare-function flymake-diagnostic-type "flymake")
(declare-function flymake-running-backends "flymake")
(declare-function flymake-reporting-backends "flymake")
(declare-function flycheck-error-line "ext:flycheck")
(declare-function flycheck-error-column "ext:flycheck")
(declare-function flycheck-error-level "ext:flycheck")
(declare-function flycheck-error-message "ext:flycheck")
(declare-function flycheck-running-p "ext:flycheck")
(defvar flycheck-current-errors)

(defun edn-bridge-hands--diagnostics (arguments)
  "Return what checkers report of the file in ARGUMENTS, or of all open ones."
  (let* ((path (plist-get arguments :path))
         (buffers (if (member path '(nil ""))
                      (edn-bridge-hands--open)
                    (list (edn-bridge-hands--buffer path))))
         (names (mapcar (lambda (buffer)
                          (edn-bridge-hands--name (buffer-file-name buffer)))
                        buffers))
         (checked 0)
         (busy nil)
         (lines nil))
    (cl-loop
     for buffer in buffers
     for name in names
     do (with-current-buffer buffer
          (when (or (bound-and-true-p flymake-mode)
                    (bound-and-true-p flycheck-mode))
            (cl-incf checked)
            (setq lines (append lines (edn-bridge-hands--flymake name)
                                (edn-bridge-hands--flycheck name)))
            (when (edn-bridge-hands--checking-p)
              (push name busy)))))
    (concat
     (cond
      ((null buffers)
       "No file of the project is open in the editor.")
      ((zerop checked)
       (format "No checker runs in %s."
               (if (cdr names) "the open files" (car names))))
      (t
       (edn-bridge-hands--lines
        lines
        (format "No problems in %d checked file%s." checked
                (if (= checked 1) "" "s")))))
     (if busy
         (format "\n(Still being checked: %s)"
                 (string-join (seq-take (nreverse busy) 20) ", "))
       ""))))

(defun edn-bridge-hands--problem (name line column level text)
  "Return a line about the problem TEXT of LEVEL in NAME at LINE and COLUMN."
  (format "%s:%d:%d: %s: %s" name line column level
          (edn-bridge-hands--one-line text)))

(defun edn-bridge-hands--flymake (name)
  "Return what Flymake reports of this buffer, the file NAME."
  (when (bound-and-true-p flymake-mode)
    (save-restriction
      (widen)
      (mapcar
       (lambda (diagnostic)
         (save-excursion
           (goto-char (flymake-diagnostic-beg diagnostic))
           (edn-bridge-hands--problem
            name (line-number-at-pos nil t) (1+ (current-column))
            (string-remove-prefix
             ":" (symbol-name (flymake-diagnostic-type diagnostic)))
            (flymake-diagnostic-text diagnostic))))
       (seq-take (sort (flymake-diagnostics)
                       (lambda (a b)
                         (< (flymake-diagnostic-beg a)
                            (flymake-diagnostic-beg b))))
                 (1+ edn-bridge-hands--rows))))))

(defun edn-bridge-hands--flycheck (name)
  "Return what Flycheck reports of this buffer, the file NAME."
  (when (bound-and-true-p flycheck-mode)
    (mapcar (lambda (problem)
              (edn-bridge-hands--problem
               name (or (flycheck-error-line problem) 1)
               (or (flycheck-error-column problem) 1)
               (flycheck-error-level problem)
               (or (flycheck-error-message problem) "")))
            (seq-take (bound-and-true-p flycheck-current-errors)
                      (1+ edn-bridge-hands--rows)))))

(defun edn-bridge-hands--checking-p ()
  "Return non-nil if a checker of this buffer has not reported yet."
  (or (and (bound-and-true-p flymake-mode)
           (fboundp 'flymake-reporting-backends)
           (cl-set-difference (flymake-running-backends)
                              (flymake-reporting-backends))
           t)
      (and (bound-and-true-p flycheck-mode)
           (fboundp 'flycheck-running-p)
           (flycheck-running-p))))

;;;; Definitions and references

(defun edn-bridge-hands--definitions-of (arguments)
  "Return where the symbol in ARGUMENTS is defined."
  (edn-bridge-hands--places arguments "definition"
                            :textDocument/definition nil))

(defun edn-bridge-hands--references-of (arguments)
  "Return where the symbol in ARGUMENTS is used."
  (edn-bridge-hands--places arguments "use"
                            :textDocument/references
                            '(:context (:includeDeclaration t))))

(defun edn-bridge-hands--places (arguments what method more)
  "Return the places that a language server has for ARGUMENTS, as lines.
WHAT names one of them.  They are asked for with METHOD and its parameters
MORE.  Places outside of this chat's folder are counted."
  (let* ((symbol (edn-bridge-hands--argument arguments :symbol))
         (path (edn-bridge-hands--argument arguments :path))
         (own (edn-bridge-hands--buffer path))
         (open (edn-bridge-hands--open))
         (found
          (with-current-buffer own
            (save-excursion
              (save-restriction
                (widen)
                (cond
                 ((edn-bridge-hands--server)
                  (unless (edn-bridge-hands--go-to
                           symbol (plist-get arguments :line))
                    (error "%s does not contain %s" path symbol))
                  (edn-bridge-hands--ask-server method more))
                 ((and (eq method :textDocument/definition)
                       (derived-mode-p 'emacs-lisp-mode))
                  (edn-bridge-hands--elisp-places symbol open))
                 (t
                  (error "No language server answers in this buffer: use search")))))))
         (lines nil)
         (outside 0))
    (pcase-dolist (`(,file ,line ,column) found)
      (let ((name (and file (edn-bridge-hands--name-inside file own))))
        (if name
            (push (edn-bridge-hands--place name line column own) lines)
          (cl-incf outside))))
    (concat
     (edn-bridge-hands--lines (delete-dups (nreverse lines))
                              (format "No %s of %s is known." what symbol))
     (if (zerop outside)
         ""
       (format "\n(%d outside of the folder left out)" outside)))))

(defun edn-bridge-hands--go-to (symbol line)
  "Go to SYMBOL in LINE of this buffer, or wherever it is used first.
Return non-nil if it is there.  What a language server is asked about is
what is at point."
  (let ((case-fold-search nil)
        (regexp (concat "\\_<" (regexp-quote symbol) "\\_>")))
    (goto-char (point-min))
    (unless (and (integerp line)
                 (progn (forward-line (1- line))
                        (re-search-forward regexp (line-end-position) t)))
      (goto-char (point-min))
      (re-search-forward regexp nil t))
    (when (looking-back regexp (line-beginning-position))
      (goto-char (match-beginning 0)))))

(defun edn-bridge-hands--folders (own)
  "Return the names of this chat's folder, as it is called and without links.
The latter is known by OWN, the buffer of a file in it: nothing is asked of
the file system."
  (let* ((folder (file-local-name (expand-file-name default-directory)))
         (file (file-local-name (buffer-file-name own)))
         (true (file-local-name (or (edn-bridge-buffers-true-name own) file)))
         (rest (and (string-prefix-p folder file)
                    (substring file (length folder)))))
    (if (and rest (string-suffix-p (concat "/" rest) true))
        (list folder (string-remove-suffix rest true))
      (list folder))))

(defun edn-bridge-hands--name-inside (file own)
  "Return what FILE, a local name, is called in this chat's folder, or nil.
OWN is the buffer of a file in it."
  (let* ((file-name-handler-alist nil)
         (file (expand-file-name file "/"))
         (folder (seq-find (lambda (folder) (string-prefix-p folder file))
                           (edn-bridge-hands--folders own))))
    (and folder
         (substring file (length folder)))))

(defun edn-bridge-hands--place (name line column own)
  "Return a line about the place at LINE and COLUMN of the file NAME.
Its text is that of OWN, the buffer of the file that the call names, if it
is there.  The bridge has judged no other file."
  (concat
   name
   (if line (format ":%d" line) "")
   (if column (format ":%d" column) "")
   (if (and line (member name (edn-bridge-hands--own-names own)))
       (with-current-buffer own
         (save-excursion
           (save-restriction
             (widen)
             (goto-char (point-min))
             (forward-line (1- line))
             (concat ": "
                     (edn-bridge-hands--one-line
                      (buffer-substring-no-properties
                       (point) (line-end-position)))))))
     "")))

(defun edn-bridge-hands--own-names (own)
  "Return what the file of OWN, a buffer, is called in this chat's folder."
  (delq nil
        (mapcar (lambda (file)
                  (and file
                       (edn-bridge-hands--name-inside (file-local-name file)
                                                      own)))
                (list (buffer-file-name own)
                      (edn-bridge-buffers-true-name own)))))

;; What Eglot itself makes of an answer has the text of each line: it reads
;; the files for that.  And which server a buffer has it may look up by the
;; project, for which .dir-locals.el is evaluated.

(defvar eglot--managed-mode)
(defvar eglot--cached-server)
(defvar eglot--servers-by-project)
(declare-function eglot--managed-buffers "ext:eglot" t t)
(declare-function eglot--TextDocumentPositionParams "ext:eglot" ())
(declare-function eglot--signal-textDocument/didChange "ext:eglot" ())
(declare-function jsonrpc-request "jsonrpc" t t)

(defun edn-bridge-hands--server ()
  "Return the server with which Eglot manages this buffer, or nil.
Eglot is told it too, which then looks for none."
  (when (bound-and-true-p eglot--managed-mode)
    (or eglot--cached-server
        (setq eglot--cached-server
              (cl-loop for servers being the hash-values
                       of eglot--servers-by-project
                       thereis (seq-find (lambda (server)
                                           (memq (current-buffer)
                                                 (eglot--managed-buffers
                                                  server)))
                                         servers))))))

(defun edn-bridge-hands--ask-server (method more)
  "Return the places for METHOD at point, by the server of this buffer.
MORE are further parameters.  Places are lists of a local file name, which
is nil for what is no file, a line and a column, both counted from 1."
  (eglot--signal-textDocument/didChange)
  (let ((answer (condition-case err
                    (jsonrpc-request
                     (edn-bridge-hands--server) method
                     (append (eglot--TextDocumentPositionParams) more)
                     :timeout edn-bridge-hands--seconds)
                  (jsonrpc-error
                   (error "The language server says: %s"
                          (or (alist-get 'jsonrpc-error-message
                                         (cdr (cdr err)))
                              "it failed"))))))
    (mapcar
     (lambda (location)
       (let* ((range (or (plist-get location :targetSelectionRange)
                         (plist-get location :range)))
              (start (plist-get range :start)))
         (list (edn-bridge-hands--uri-file (or (plist-get location :targetUri)
                                               (plist-get location :uri)))
               (1+ (plist-get start :line))
               (1+ (plist-get start :character)))))
     ;; One place may stand alone.
     (if (vectorp answer) answer (and answer (list answer))))))

(defun edn-bridge-hands--uri-file (uri)
  "Return the local name of the file that URI stands for, or nil."
  (and (stringp uri)
       (let ((case-fold-search t))
         (string-match "\\`file://\\(?:localhost\\)?\\(/.*\\)\\'" uri))
       (decode-coding-string (url-unhex-string (match-string 1 uri)) 'utf-8)))

(defun edn-bridge-hands--elisp-places (symbol open)
  "Return where SYMBOL, a name in Emacs Lisp, is defined.
That is looked for in OPEN, buffers, and in what Emacs noted as it loaded
files, of which no place is known."
  (let* ((case-fold-search nil)
         (known (intern-soft symbol))
         (regexp (concat "^([-[:alnum:]]*def[-*[:alnum:]]*[ \t\n]+[('#]*"
                         (regexp-quote symbol) "\\_>"))
         (places
          (cl-loop
           for buffer in open
           append
           (with-current-buffer buffer
             (when (derived-mode-p 'emacs-lisp-mode)
               (save-excursion
                 (save-restriction
                   (widen)
                   (goto-char (point-min))
                   (cl-loop
                    while (re-search-forward regexp nil t)
                    collect
                    (progn
                      (goto-char (- (match-end 0) (length symbol)))
                      (list (file-local-name buffer-file-name)
                            (line-number-at-pos nil t)
                            (1+ (current-column)))))))))))
         (files (and known
                     (delete-dups
                      (delq nil (mapcar (lambda (type) (symbol-file known type))
                                        '(defun defvar defface)))))))
    (append
     places
     (cl-loop for file in files
              for source = (and (file-name-absolute-p file)
                                (concat (file-name-sans-extension file) ".el"))
              unless (and source (assoc source places))
              collect (list source nil nil)))))

;;;; Outline, files, buffers, selection

(defun edn-bridge-hands--outline (arguments)
  "Return what the file in ARGUMENTS consists of."
  (let ((path (edn-bridge-hands--argument arguments :path)))
    (with-current-buffer (edn-bridge-hands--buffer path)
      (edn-bridge-hands--server)
      (save-excursion
        (save-restriction
          (widen)
          (edn-bridge-hands--lines
           (mapcar (pcase-lambda (`(,place . ,name))
                     (format "%d: %s" (line-number-at-pos place t) name))
                   (seq-take
                    (sort (edn-bridge-hands--flatten
                           (funcall imenu-create-index-function) "" 0)
                          (lambda (a b) (< (car a) (car b))))
                    (* 2 edn-bridge-hands--rows)))
           (format "The editor knows no parts of %s." path)))))))

(defun edn-bridge-hands--flatten (index prefix depth)
  "Return INDEX of Imenu as conses of place and name, with PREFIX before names.
DEPTH is how deep in the whole it is."
  (cl-loop
   for entry in index
   for name = (and (consp entry) (stringp (car entry))
                   (concat prefix (edn-bridge-hands--one-line
                                   (substring-no-properties (car entry)))))
   append
   (cond
    ((null name) nil)
    ((imenu--subalist-p entry)
     (and (< depth 10)
          (edn-bridge-hands--flatten (cdr entry) (concat name " / ")
                                     (1+ depth))))
    (t
     (let ((place (edn-bridge-hands--index-place (cdr entry))))
       (and place (list (cons place name))))))))

(defun edn-bridge-hands--index-place (value)
  "Return the place in this buffer that VALUE of Imenu stands for, or nil."
  (let ((value (if (consp value) (car value) value)))
    (cond ((overlayp value) (overlay-start value))
          ((markerp value) (marker-position value))
          ((and (integerp value) (> value 0)) value))))

(defun edn-bridge-hands--files (arguments)
  "Return the files of this chat's folder, as ARGUMENTS limit them."
  (let ((containing (plist-get arguments :containing))
        (names (edn-bridge-buffers-list-files edn-bridge-hands--seconds)))
    (edn-bridge-hands--lines
     (if (and (stringp containing) (not (equal containing "")))
         (seq-filter (lambda (name) (string-search containing name)) names)
       names)
     "There are no such files.")))

(defun edn-bridge-hands--buffers (_arguments)
  "Return which files of this folder are open."
  (edn-bridge-hands--lines
   (mapcar (lambda (buffer)
             (format "%s: %s%s"
                     (edn-bridge-hands--name (buffer-file-name buffer))
                     (or (edn-bridge-context-language
                          (buffer-local-value 'major-mode buffer))
                         "text")
                     (if (buffer-modified-p buffer)
                         ", unsaved changes"
                       "")))
           (edn-bridge-hands--open))
   "No file of the project is open."))

(defun edn-bridge-hands--selection (_arguments)
  "Return where the user is, and what is selected there."
  (let ((buffer (or (edn-bridge-context-buffer)
                    (error "No file of the project is open")))
        (chat (current-buffer)))
    (with-current-buffer buffer
      (let ((name (with-current-buffer chat
                    (edn-bridge-hands--name (buffer-file-name buffer))))
            (place (format "line %d, column %d"
                           (line-number-at-pos nil t)
                           (1+ (current-column)))))
        (if (not (and transient-mark-mode mark-active (/= (mark) (point))))
            (format "%s, %s; nothing is selected." name place)
          (let ((text (buffer-substring-no-properties (region-beginning)
                                                      (region-end))))
            (format "%s, %s; selected from line %d on:\n%s" name place
                    (line-number-at-pos (region-beginning) t)
                    text)))))))

;;;; Emacs Lisp

(defun edn-bridge-hands--docs (name)
  "Return the documentation of the symbol NAME of Emacs Lisp."
  (let* ((symbol (or (intern-soft name)
                     (error "This Emacs knows no symbol %s" name)))
         (parts
          (delq nil
                (list
                 (and (fboundp symbol)
                      (edn-bridge-hands--doc-part
                       (format "%s %s"
                               (cond ((macrop symbol) "Macro")
                                     ((commandp symbol) "Command")
                                     (t "Function"))
                               (or (edn-bridge-hands--usage symbol) name))
                       (documentation symbol t) symbol 'defun))
                 (and (or (boundp symbol)
                          (get symbol 'variable-documentation))
                      (edn-bridge-hands--doc-part
                       (format "%s %s"
                               (if (custom-variable-p symbol)
                                   "Option"
                                 "Variable")
                               name)
                       (documentation-property symbol 'variable-documentation t)
                       symbol 'defvar))
                 (and (facep symbol)
                      (edn-bridge-hands--doc-part
                       (format "Face %s" name)
                       (face-documentation symbol) symbol 'defface))))))
    (if parts
        (string-join parts "\n\n")
      (error "The symbol %s is no function, variable or face" name))))

(defun edn-bridge-hands--usage (symbol)
  "Return how the function SYMBOL is called, or nil if that is not known."
  (let ((arguments (help-function-arglist symbol t)))
    (and (listp arguments)
         (format "%S" (cons symbol arguments)))))

(defun edn-bridge-hands--doc-part (title text symbol type)
  "Return TITLE, TEXT and the file that defines SYMBOL as TYPE."
  (concat title
          (if-let ((file (symbol-file symbol type)))
              (format "  (%s)" (file-name-nondirectory file))
            "")
          "\n"
          (if (stringp text)
              (substring-no-properties (substitute-command-keys text))
            "It has no documentation.")))

(defun edn-bridge-hands--eval (code)
  "Return the printed value of the last form in CODE, which is evaluated."
  (let ((value nil)
        (start 0)
        (end (length (string-trim-right code))))
    (while (< start end)
      (pcase-let ((`(,form . ,next) (read-from-string code start)))
        (setq value (eval form t)
              start next)))
    (edn-bridge-hands--printed value)))

(provide 'edn-bridge-hands-tools)

;;; edn-bridge-hands-tools.el ends here
