;;; edn-bridge-complete.el --- Choosing and completing  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; How a person chooses one of several things, by whatever completion they
;; use, and the completion in the draft of a chat: slash commands and
;; their arguments after /, files of the project and resources of servers
;; after @.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-chat)
(require 'edn-bridge-buffers)

;;;; Choosing

(defun edn-bridge-complete-choose (prompt category items label
                                          &optional annotate)
  "Choose one of ITEMS with PROMPT by completion, and return it.
CATEGORY is the symbol by which completion tells what the items are.
LABEL is a function that returns what an item is called, and ANNOTATE one
that returns its annotation, or nil.  Items of the same name are told
apart by a number.  The order of ITEMS is kept.  To choose nothing is to
quit."
  (pcase-let ((`(,names . ,table) (edn-bridge-complete--names items label)))
    (or (gethash (completing-read
                  prompt
                  (edn-bridge-complete--collection
                   names
                   (and annotate
                        (edn-bridge-complete--columns names table annotate))
                   category)
                  nil t)
                 table)
        (signal 'quit nil))))

(defconst edn-bridge-complete--name-width 50
  "How many columns names have at most before their annotations.")

(defun edn-bridge-complete--columns (names table annotate)
  "Return a function that annotates NAMES, one below another.
ANNOTATE is called with the value of a name in TABLE."
  (let ((width (min edn-bridge-complete--name-width
                    (apply #'max 0 (mapcar #'string-width names)))))
    (lambda (name)
      (let ((text (funcall annotate (gethash name table))))
        (and (not (member text '(nil "")))
             (concat (make-string (max 0 (- width (string-width name))) ?\s)
                     text))))))

(defun edn-bridge-complete-choose-several (prompt category items label
                                                  &optional annotate)
  "Choose some of ITEMS with PROMPT by completion, and return them.
See `edn-bridge-complete-choose' for CATEGORY, LABEL and ANNOTATE.  What
is chosen is written with commas between, and so names have semicolons
instead."
  (pcase-let ((`(,names . ,table)
               (edn-bridge-complete--names
                items (lambda (item)
                        (subst-char-in-string ?, ?\; (funcall label item))))))
    (mapcar (lambda (name) (gethash name table))
            (completing-read-multiple
             prompt
             (edn-bridge-complete--collection
              names
              (and annotate
                   (lambda (name) (funcall annotate (gethash name table))))
              category)
             nil t))))

(defun edn-bridge-complete--names (items label)
  "Return the names of ITEMS, in their order, and a hash table from them.
LABEL is a function that returns what an item is called.  The order of a
hash table's keys is not the same in every version of Emacs."
  (let ((table (make-hash-table :test #'equal))
        (names nil))
    (dolist (item items)
      (let* ((base (let ((text (edn-bridge-visible-label
                                (funcall label item))))
                     (if (equal text "") "(empty)" text)))
             (name base)
             (count 1))
        (while (not (eq (gethash name table table) table))
          (setq name (format "%s <%d>" base (cl-incf count))))
        (push name names)
        (puthash name item table)))
    (cons (nreverse names) table)))

(defun edn-bridge-complete--collection (names annotate &optional category)
  "Return a completion table of NAMES in their order.
ANNOTATE is nil or a function that returns the annotation of a name,
CATEGORY nil or what completion takes the names for."
  (lambda (string predicate action)
    (if (eq action 'metadata)
        `(metadata
          (display-sort-function . identity)
          (cycle-sort-function . identity)
          ,@(and category `((category . ,category)))
          ,@(and annotate
                 `((annotation-function
                    . ,(lambda (name)
                         (edn-bridge-complete--note
                          (funcall annotate name)))))))
      (complete-with-action action names string predicate))))

(defun edn-bridge-complete--note (text)
  "Return TEXT as the annotation of a candidate."
  (if (member text '(nil ""))
      ""
    (concat "  " (propertize (edn-bridge-visible-label text)
                             'face 'completions-annotations))))

;;;; The draft

(defvar-local edn-bridge-complete--commands nil
  "Slash commands as the bridge lists them.")

(defvar edn-bridge-complete--own-commands nil
  "Slash commands that Emacs alone has, as the bridge would list them.")

(defun edn-bridge-complete-add-command (name description)
  "Complete the slash command NAME, which does what DESCRIPTION says."
  (setq edn-bridge-complete--own-commands
        (append (seq-remove (lambda (command)
                              (equal (plist-get command :name) name))
                            edn-bridge-complete--own-commands)
                (list (list :name name :description description)))))

(defvar-local edn-bridge-complete--models nil
  "Models as the bridge lists them.")

(defvar-local edn-bridge-complete-agents nil
  "Names of the external agents that a new session can have.")

(defvar-local edn-bridge-complete--files nil
  "Cons of a time and the files of the project then.")

(defvar edn-bridge-complete--argument #'ignore
  "Function that completes an argument of a slash command of a server.")

(defvar edn-bridge-complete--reference #'ignore
  "Function that completes a reference to a resource of a server.")

(defvar edn-bridge-complete--reference-names #'ignore
  "Function that returns what references can begin with.")

(defun edn-bridge-complete-handle-servers (argument reference names)
  "Have three functions complete what is of servers.
ARGUMENT is called with the name of a slash command and the arguments
before, a list of strings, and with what is typed of the next argument;
REFERENCE with what is typed after an @.  Both return candidates.  NAMES
is called without arguments and returns what references can begin with."
  (setq edn-bridge-complete--argument argument
        edn-bridge-complete--reference reference
        edn-bridge-complete--reference-names names))

(defun edn-bridge-complete-at-point ()
  "Complete a slash command, its argument, or what is after @ in the draft."
  (when (and (derived-mode-p 'edn-bridge-chat-mode)
             (edn-bridge-transcript-in-draft-p))
    (let ((start (edn-bridge-transcript-draft-start)))
      (cond
       ((eq (char-after start) ?/)
        (edn-bridge-complete--slash (1+ start)))
       ((save-excursion
          (skip-chars-backward "^ \t\n@" start)
          (and (eq (char-before) ?@)
               (>= (1- (point)) start)
               (or (= (1- (point)) start)
                   (memq (char-before (1- (point))) '(?\s ?\t ?\n ?\()))))
        (edn-bridge-complete--file start))))))

(defun edn-bridge-complete--slash (start)
  "Complete the slash command whose name begins at START."
  (let ((end (save-excursion
               (goto-char start)
               (skip-chars-forward "A-Za-z0-9_?-")
               (point))))
    (cond
     ;; A path, say.
     ((not (memq (char-after end) '(nil ?\s ?\t ?\n))) nil)
     ((<= (point) end)
      (list start end
            (edn-bridge-complete--collection
             (edn-bridge-complete--command-names)
             #'edn-bridge-complete--command-doc)
            :company-prefix-length t))
     (t
      (let* ((from (save-excursion
                     (skip-chars-backward "^ \t\n" end)
                     (point)))
             (words (split-string (buffer-substring-no-properties start from)))
             (names (or (edn-bridge-complete--arguments words)
                        (funcall edn-bridge-complete--argument words
                                 (buffer-substring-no-properties
                                  from (point))))))
        (when names
          (list from (save-excursion (skip-chars-forward "^ \t\n") (point))
                (edn-bridge-complete--collection names nil)
                :exclusive 'no
                :company-prefix-length t)))))))

(defun edn-bridge-complete--command-names ()
  "Return the names of the slash commands, those of extensions included."
  (seq-uniq
   (append
    (mapcar (lambda (command) (plist-get command :name))
            edn-bridge-complete--commands)
    edn-bridge-constants-slash-commands
    (mapcar (lambda (command) (plist-get command :name))
            edn-bridge-complete--own-commands)
    (mapcar (lambda (name)
              (string-remove-prefix "/" (edn-bridge-chat-word name)))
            (edn-bridge-chat-get :extension-command-names))
    (seq-filter #'stringp
                (mapcar (lambda (template)
                          (if (consp template)
                              (plist-get template :name)
                            template))
                        (edn-bridge-chat-get :prompt-templates))))))

(defun edn-bridge-complete-command (name)
  "Return what the bridge says of the slash command NAME, or nil."
  (seq-find (lambda (command) (equal (plist-get command :name) name))
            (append edn-bridge-complete--commands
                    edn-bridge-complete--own-commands)))

(defun edn-bridge-complete--command-doc (name)
  "Return what the slash command NAME does, or nil."
  (plist-get (edn-bridge-complete-command name) :description))

(defun edn-bridge-complete--arguments (words)
  "Return what can come after WORDS, a slash command and arguments of it."
  (pcase words
    ('("thinking") edn-bridge-constants-thinking-levels)
    ('("mode") edn-bridge-constants-modes)
    ('("new") edn-bridge-complete-agents)
    ((or '("model") '("login") '("logout"))
     (seq-uniq (mapcar #'edn-bridge-complete--provider
                       edn-bridge-complete--models)))
    (`("model" ,provider)
     (mapcar (lambda (model) (plist-get model :id))
             (seq-filter (lambda (model)
                           (equal (edn-bridge-complete--provider model)
                                  provider))
                         edn-bridge-complete--models)))))

(defun edn-bridge-complete--provider (model)
  "Return the name of the provider of MODEL."
  (edn-bridge-chat-word (plist-get model :provider)))

(defun edn-bridge-complete-eldoc (callback &rest _)
  "Tell CALLBACK what the slash command in the draft takes and does."
  (when (edn-bridge-transcript-in-draft-p)
    (save-excursion
      (goto-char (edn-bridge-transcript-draft-start))
      (when-let* ((name (and (looking-at "/\\([A-Za-z0-9_?-]+\\)")
                             (match-string-no-properties 1)))
                  (command (edn-bridge-complete-command name)))
        (funcall callback (plist-get command :description)
                 :thing (or (plist-get command :usage) (concat "/" name))
                 :face 'edn-bridge-title)))))

(defun edn-bridge-complete--file (start)
  "Complete the file or the reference after an @ that is not before START."
  (let* ((from (save-excursion (skip-chars-backward "^ \t\n@" start) (point)))
         (to (save-excursion (skip-chars-forward "^ \t\n") (point)))
         (references (funcall edn-bridge-complete--reference
                              (buffer-substring-no-properties from (point)))))
    (list from to
          (if references
              (edn-bridge-complete--collection references nil)
            ;; Of this category Emacs finds a name by any part of it.
            (lambda (string predicate action)
              (if (eq action 'metadata)
                  '(metadata (category . project-file)
                             (display-sort-function . identity)
                             (cycle-sort-function . identity))
                (complete-with-action
                 action
                 (seq-uniq
                  (append (edn-bridge-complete--project-files)
                          (funcall edn-bridge-complete--reference-names)))
                 string predicate))))
          ;; Whoever writes an @ may not mean a file.
          :exclusive 'no
          :company-prefix-length t)))

(defun edn-bridge-complete--project-files ()
  "Return the files of the project, relative to this chat's folder.
They are looked for again after ten seconds."
  (let ((now (float-time)))
    (unless (and edn-bridge-complete--files
                 (< (- now (car edn-bridge-complete--files)) 10))
      (setq edn-bridge-complete--files
            (cons now
                  (condition-case nil
                      (edn-bridge-buffers-list-files 3)
                    (error
                     (seq-remove
                      (lambda (name)
                        (or (string-prefix-p "." name)
                            (string-suffix-p "/" name)))
                      (file-name-all-completions "" default-directory)))))))
    (cdr edn-bridge-complete--files)))

(defun edn-bridge-complete-fetch-commands ()
  "Ask the bridge for the slash commands of this chat."
  (let ((conn edn-bridge-chat--conn))
    (edn-bridge-rpc-request
     conn "get_commands" nil
     :on-success
     (lambda (data)
       (edn-bridge-chat-with-buffer conn
         (setq edn-bridge-complete--commands
               (append (plist-get data :commands) nil))))
     :on-error #'ignore)))

(defun edn-bridge-complete--fetch ()
  "Ask the bridge for what can be completed in this chat."
  (edn-bridge-complete-fetch-commands)
  (let ((conn edn-bridge-chat--conn))
    (edn-bridge-rpc-request
     conn "get_available_models" nil
     :on-success
     (lambda (data)
       (edn-bridge-chat-with-buffer conn
         (setq edn-bridge-complete--models
               (append (plist-get data :models) nil))))
     :on-error #'ignore)))

(defun edn-bridge-complete--setup ()
  "Have the draft of this chat completed, and its slash command explained."
  (add-hook 'completion-at-point-functions
            #'edn-bridge-complete-at-point nil t)
  (add-hook 'eldoc-documentation-functions #'edn-bridge-complete-eldoc nil t))

(add-hook 'edn-bridge-chat-mode-hook #'edn-bridge-complete--setup)
(add-hook 'edn-bridge-chat-ready-hook #'edn-bridge-complete--fetch)

(provide 'edn-bridge-complete)

;;; edn-bridge-complete.el ends here
